import test from 'ava';
import { addMember } from '#test/support/members.ts';
import type { TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type WebhookScene, insertDelivery, webhookScene } from './api-scene.ts';

const platform = usePlatform(test, { worker: false });

let owner: TestUser;

test.before(async () => {
  owner = await platform().client.signUp();
});

const scene = (): Promise<WebhookScene> => webhookScene(platform(), owner);

interface Page {
  readonly deliveries: readonly { id: string; webhook_id: string; status: string }[];
  readonly next: string | null;
}

const insertMany = async (webhookId: string, count: number, status: string, event = 'auth.login'): Promise<void> => {
  await platform().db.query(
    `insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, finished_at)
     select id, project_id, gen_random_uuid(), $4, $3, now() from webhooks, generate_series(1, $2::int) where id = $1`,
    [webhookId, count, status, event],
  );
};

test('deliveries of all webhooks are listed, the latest first, page by page and by filter', async (t) => {
  const { ask, made } = await scene();
  const [one, other] = [await made(), await made()];
  await insertMany(one, 3, 'exhausted');
  await insertMany(other, 2, 'success', 'auth.signup');
  await insertMany(one, 1, 'success');
  const list = async (query = ''): Promise<Page> => (await ask('GET', `/deliveries${query}`)).body;
  const all = await list();
  t.is(all.deliveries.length, 6);
  t.is(all.next, null);
  t.deepEqual(
    all.deliveries.map(({ id }) => id),
    all.deliveries
      .map(({ id }) => id)
      .toSorted()
      .toReversed(),
  );
  const first = await list('?limit=4');
  t.is(first.deliveries.length, 4);
  const rest = await list(`?limit=4&before=${first.next ?? ''}`);
  t.deepEqual([...first.deliveries, ...rest.deliveries], [...all.deliveries]);
  t.is(rest.next, null);
  t.is((await list('?status=exhausted')).deliveries.length, 3);
  t.is((await list(`?webhook_id=${other}`)).deliveries.length, 2);
  t.is((await list('?event=auth.signup')).deliveries.length, 2);
  t.is((await list(`?since=${new Date(Date.now() + 60_000).toISOString()}`)).deliveries.length, 0);
  for (const query of ['?status=nothing', '?before=x', '?limit=0'])
    t.is((await ask('GET', `/deliveries${query}`)).status, 400, query);
});

test('nobody sees deliveries of another project, nor those of a webhook that was deleted', async (t) => {
  const [mine, foreign] = [await scene(), await scene()];
  const [webhook, gone] = [await foreign.made(), await mine.made()];
  await insertDelivery(platform(), webhook);
  await insertDelivery(platform(), gone);
  t.is((await mine.ask('DELETE', `/webhooks/${gone}`)).status, 204);
  t.deepEqual((await mine.ask('GET', '/deliveries')).body, { deliveries: [], next: null });
  t.deepEqual((await mine.ask('GET', `/deliveries?webhook_id=${webhook}`)).body, { deliveries: [], next: null });
});

test('a dry run of a replay counts what it would send, and changes nothing', async (t) => {
  const { ask, made } = await scene();
  const webhook = await made();
  await insertMany(webhook, 3, 'exhausted');
  await insertMany(webhook, 2, 'success');
  await insertMany(webhook, 1, 'success', 'test.ping');
  const since = new Date(Date.now() - 3_600_000).toISOString();
  const replay = (body: object) => ask('POST', `/webhooks/${webhook}/replay`, { since, ...body });
  t.deepEqual((await replay({ dry_run: true })).body, { replayed: 0, matched: 5 });
  t.deepEqual((await replay({ dry_run: true, statuses: ['exhausted'] })).body, { replayed: 0, matched: 3 });
  t.is((await ask('GET', '/deliveries?status=pending')).body['deliveries'].length, 0);
  t.deepEqual((await replay({ statuses: ['exhausted'] })).body, { replayed: 3 });
  t.is((await ask('POST', `/webhooks/${crypto.randomUUID()}/replay`, { since, dry_run: true })).status, 404);
});

test('a developer emits an event of the project’s own, a viewer does not', async (t) => {
  const { ask, project } = await scene();
  await ask('POST', '/webhooks', { url: 'https://example.com/hook', events: ['order.paid'] });
  const body = { name: 'order.paid', data: { total: 12 } };
  t.is((await ask('POST', '/events', body)).status, 202);
  const waiting = () => platform().db.query('select data from outbox_events where project_id = $1', [project.id]);
  await until(async () => (await waiting()).length === 1);
  for (const wrong of [{ name: 'db.insert' }, { name: 'Order' }, {}])
    t.is((await ask('POST', '/events', wrong)).status, 400);
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const at = `/projects/${project.id}/integrations/events`;
  t.is((await platform().client.call('POST', at, { token: viewer.token, body })).status, 403);
});
