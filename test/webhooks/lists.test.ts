import test from 'ava';
import { listDeliveries, maxListed, maxSearched } from '#domain/webhooks/deliveries.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type WebhookScene, insertDelivery, webhookScene } from './api-scene.ts';

const platform = usePlatform(test, { worker: false });

let scene: WebhookScene;

test.before(async () => {
  scene = await webhookScene(platform());
});

const ids = (rows: readonly { id: string }[]): string[] => rows.map(({ id }) => id);

test('a list goes back as far as its bound, and says what to do beyond', async (t) => {
  const { ask, made } = scene;
  const path = `/webhooks/${await made()}/deliveries`;
  t.is((await ask('GET', `${path}?offset=${maxListed}`)).status, 200);
  const { status, body } = await ask('GET', `${path}?offset=${maxListed + 1}`);
  t.is(status, 400);
  t.is(body.details[0].path, 'offset');
  t.regex(body.details[0].message, /at most 10000: look further back with until/);
  t.is((await ask('GET', `${path}?offset=-1`)).body.details[0].path, 'offset');
});

test('a list is bounded by both its times, however they are written', async (t) => {
  const { ask, made } = scene;
  const webhookId = await made();
  const insert = (at: string) => insertDelivery(platform(), webhookId, { at: `'${at}'::timestamptz` });
  const [, middle] = [
    await insert('2026-03-01T10:00:00Z'),
    await insert('2026-03-01T11:00:00Z'),
    await insert('2026-03-01T12:00:00Z'),
  ];
  const list = async (query: string) =>
    ids((await ask('GET', `/webhooks/${webhookId}/deliveries?${query}`)).body.deliveries);
  for (const query of [
    'since=2026-03-01T10:30:00Z&until=2026-03-01T12:00:00Z',
    'since=2026-03-01T11:30:00%2B01:00&until=2026-03-01T11:00:00.001Z',
    'since=2026-03-01T11:30:00+01:00&until=2026-03-01T06:30:00-05:00',
  ]) {
    t.deepEqual(await list(query), [middle.id], query);
  }
  t.is((await list('until=0000-01-01T00:00:00Z')).length, 0);
  t.is((await list('since=9999-12-31T23:59:59-23:59')).length, 0);
  for (const bad of [
    '2026-03-01',
    '2026-02-30T00:00:00Z',
    '2026-03-01T10:00:00',
    '2026-03-01T10:00:00+25:00',
    '1',
    '',
  ]) {
    const { status, body } = await ask('GET', `/webhooks/${webhookId}/deliveries?since=${bad}`);
    t.is(status, 400, bad);
    t.regex(body.details[0].message, /^must be a time such as/, bad);
  }
});

test('what a list counts and searches is bounded', async (t) => {
  const { made } = scene;
  const webhookId = await made();
  const rare = await insertDelivery(platform(), webhookId, { event: 'auth.signup', at: `now() - interval '1 hour'` });
  await platform().db.query(
    `insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, next_attempt_at)
     select id, project_id, gen_random_uuid(), 'auth.login', 'pending', now() from webhooks, generate_series(1, $2::int)
     where id = $1`,
    [webhookId, maxSearched],
  );
  const list = (filter: Partial<Parameters<typeof listDeliveries>[2]>) =>
    listDeliveries(platform().db, webhookId, { limit: 1, offset: 0, ...filter });
  t.is((await list({})).total, maxListed);
  t.is((await list({ status: 'pending' })).total, maxListed);
  t.is((await list({ event: 'auth.login' })).total, maxListed);
  t.deepEqual(await list({ event: 'auth.signup' }), { deliveries: [], total: 0 });
  const before = new Date(Date.now() - 600_000);
  const found = await list({ event: 'auth.signup', until: before });
  t.deepEqual([ids(found.deliveries), found.total], [[rare.id], 1]);
  t.is((await list({ event: 'auth.signup', status: 'success' })).total, 1);
});
