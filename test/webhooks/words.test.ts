import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { type WebhookScene, receiverUrl, webhookScene } from './api-scene.ts';

const platform = usePlatform(test, { worker: false, shared: true });

let scene: WebhookScene;

test.before(async () => {
  scene = await webhookScene(platform());
});

const good = { url: receiverUrl, events: ['*'] };

for (const [what, body, path, message] of [
  ['nothing', {}, 'url', 'is required: text'],
  ['no events', { url: receiverUrl }, 'events', 'is required: a list'],
  ['a number for a URL', { ...good, url: 5 }, 'url', 'must be text'],
  ['null for a URL', { ...good, url: null }, 'url', 'must be text'],
  ['an empty list', { ...good, events: [] }, 'events', 'must have at least 1 item'],
  ['text for a list', { ...good, events: '*' }, 'events', 'must be a list'],
  ['an empty name of an event', { ...good, events: [''] }, 'events.0', 'must have at least 1 character'],
  ['text for a switch', { ...good, active: 'yes' }, 'active', 'must be true or false'],
  ['a rate of half', { ...good, rate_per_second: 0.5 }, 'rate_per_second', 'must be a whole number'],
  ['too high a rate', { ...good, rate_per_second: 1001 }, 'rate_per_second', 'must be at most 1000'],
  ['a field of nobody', { ...good, retries: 1 }, '', 'has no field retries: leave out what is not documented'],
  ['a list for a body', [], '', 'must be an object'],
] as const satisfies readonly (readonly [string, unknown, string, string])[]) {
  test(`a webhook of ${what} is refused with what to do`, async (t) => {
    const { status, body: answer } = await scene.ask('POST', '/webhooks', body);
    t.is(status, 400);
    t.deepEqual(answer.details[0], { path, message });
  });
}

test('a replay and a list that are not valid are refused with what to do', async (t) => {
  const { ask, made } = scene;
  const id = await made();
  const replay = async (body: unknown) => (await ask('POST', `/webhooks/${id}/replay`, body)).body.details[0];
  const since = '2026-03-01T10:00:00+01:00';
  const time = 'must be a time such as 2026-05-31T18:00:00Z or 2026-05-31T20:00:00+02:00';
  t.deepEqual(await replay({}), { path: 'since', message: 'is required: text' });
  t.deepEqual(await replay({ since: 'yesterday' }), { path: 'since', message: time });
  t.deepEqual(await replay({ since, until: since }), { path: 'until', message: 'must be later than since' });
  t.deepEqual(await replay({ since, statuses: [] }), { path: 'statuses', message: 'must have at least 1 item' });
  t.deepEqual(await replay({ since, statuses: ['pending'] }), {
    path: 'statuses.0',
    message: 'must be one of success, failed, exhausted, skipped',
  });
  t.deepEqual((await ask('POST', `/webhooks/${id}/replay`, { since })).body, { replayed: 0 });
  t.deepEqual((await ask('GET', `/webhooks/${id}/deliveries?status=done`)).body.details[0], {
    path: 'status',
    message: 'must be one of pending, success, failed, exhausted, skipped',
  });
});
