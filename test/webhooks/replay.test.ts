import test from 'ava';
import { replay } from '#domain/webhooks/replay.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type WebhookScene, insertDelivery, webhookScene } from './api-scene.ts';

const platform = usePlatform(test, { worker: false });

let owner: TestUser;

test.before(async () => {
  owner = await platform().client.signUp();
});

const scene = (): Promise<WebhookScene> => webhookScene(platform(), owner);

const since = (): string => new Date(Date.now() - 3_600_000).toISOString();

const insertMany = async (webhookId: string, count: number, status = 'skipped'): Promise<void> => {
  await platform().db.query(
    `insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, finished_at)
     select id, project_id, gen_random_uuid(), 'auth.login', $3, now() from webhooks, generate_series(1, $2::int) where id = $1`,
    [webhookId, count, status],
  );
};

/** So many of its deliveries wait, as others see it, and none of them nor the throttle is held by anybody. */
const waiting = async (webhookId: string): Promise<number> => {
  const { db } = platform();
  await db.query('select from webhook_throttles where webhook_id = $1 for update nowait', [webhookId]);
  await db.query('select from webhook_deliveries where webhook_id = $1 for update nowait', [webhookId]);
  const [row] = await db.query<{ count: number }>(
    `select count(*) as count from webhook_deliveries where webhook_id = $1 and next_attempt_at is not null`,
    [webhookId],
  );
  return row?.count ?? 0;
};

test('a delivery that somebody holds is refused at once, and neither its webhook nor its neighbours wait', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  const [lockedElsewhere, free] = [
    await insertDelivery(platform(), webhookId),
    await insertDelivery(platform(), webhookId),
  ];
  const redeliver = (id: string) => ask('POST', `/webhooks/${webhookId}/deliveries/${id}/redeliver`);
  await platform().db.transaction(async (tx) => {
    await tx.query('select from webhook_deliveries where id = $1 for no key update', [lockedElsewhere.id]);
    const refused = await redeliver(lockedElsewhere.id);
    t.is(refused.status, 409);
    t.regex(refused.body.message, /being replayed/);
    t.is((await redeliver(free.id)).status, 202);
    t.is((await ask('PUT', `/webhooks/${webhookId}`, { name: 'still here' })).status, 200);
    t.is((await redeliver(crypto.randomUUID())).status, 404);
  });
  t.is((await redeliver(lockedElsewhere.id)).status, 202);
});

test('a replay keeps what its steps did, and holds nothing between them', async (t) => {
  const { made, project } = await scene();
  const webhookId = await made();
  await insertMany(webhookId, 11_000);
  const seen: number[] = [];
  const guard: Queryable = {
    query: async (...args) => {
      seen.push(await waiting(webhookId));
      return platform().db.query(...args);
    },
  };
  const request = { since: new Date(since()), statuses: ['skipped', 'skipped', 'failed'] as const };
  t.is(await replay(platform().db, { projectId: project.id, webhookId }, request, guard), 11_000);
  t.deepEqual(seen, [0, 5000, 10_000]);
});

test('a replay ends when its webhook is made inactive, and what is held by others is left out', async (t) => {
  const { ask, made, project } = await scene();
  const webhookId = await made();
  await insertMany(webhookId, 6000, 'failed');
  const lockedElsewhere = await insertDelivery(platform(), webhookId, {
    at: `now() - interval '30 minutes'`,
    status: 'failed',
  });
  let steps = 0;
  const guard: Queryable = {
    query: async (...args) => {
      steps += 1;
      if (steps === 2) await ask('PUT', `/webhooks/${webhookId}`, { active: false });
      return platform().db.query(...args);
    },
  };
  const place = { projectId: project.id, webhookId };
  const request = { since: new Date(since()), statuses: ['failed'] as const };
  await platform().db.transaction(async (tx) => {
    await tx.query('select from webhook_deliveries where id = $1 for update', [lockedElsewhere.id]);
    await t.throwsAsync(replay(platform().db, place, request, guard), { message: /inactive/ });
  });
  const [row] = await platform().db.query<{ status: string }>('select status from webhook_deliveries where id = $1', [
    lockedElsewhere.id,
  ]);
  t.is(row?.status, 'failed');
  t.is(steps, 2);
  t.is((await ask('POST', `/webhooks/${webhookId}/replay`, { since: since() })).status, 409);
});

test('a replay wakes its throttle, also when its caller dies before it runs a batch', async (t) => {
  const { made, project } = await scene();
  const webhookId = await made();
  await insertMany(webhookId, 1);
  await replay(
    platform().db,
    { projectId: project.id, webhookId },
    { since: new Date(since()), statuses: ['skipped'] },
  );
  const [throttle] = await platform().db.query(
    'select from webhook_throttles where webhook_id = $1 and next_at <= now()',
    [webhookId],
  );
  t.truthy(throttle);
});

test('requests with one Idempotency-Key replay once; another replay needs another key', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  await insertMany(webhookId, 6000);
  const headers = { 'idempotency-key': 'at-once' };
  const body = { since: since() };
  const send = (given: unknown) => ask('POST', `/webhooks/${webhookId}/replay`, given, headers);
  const answers = await Promise.all([send(body), send(body), send(body)]);
  t.deepEqual(
    answers.map((answer) => [answer.status, answer.body]),
    Array.from({ length: 3 }, () => [202, { replayed: 6000 }]),
  );
  t.is(answers.filter((answer) => answer.headers.get('idempotent-replayed') === 'true').length, 2);
  const other = await send({ ...body, statuses: ['failed'] });
  t.deepEqual([other.status, other.body.code], [422, 'idempotency_mismatch']);
});

test('a key whose replay was refused may be used again', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made({ active: false });
  await insertMany(webhookId, 3);
  const body = { since: since() };
  const send = () => ask('POST', `/webhooks/${webhookId}/replay`, body, { 'idempotency-key': 'later' });
  t.is((await send()).status, 409);
  await ask('PUT', `/webhooks/${webhookId}`, { active: true });
  t.deepEqual((await send()).body, { replayed: 3 });
  t.is((await ask('POST', `/webhooks/${crypto.randomUUID()}/replay`, body)).status, 404);
});

test('a replay side by side with redeliveries and changes fails nowhere', async (t) => {
  const { ask, made } = await scene();
  const webhookId = await made();
  await insertMany(webhookId, 12_000);
  const rows = await platform().db.query<{ id: string }>(
    'select id from webhook_deliveries where webhook_id = $1 order by id desc limit 20',
    [webhookId],
  );
  const others = rows.map(({ id }) => ask('POST', `/webhooks/${webhookId}/deliveries/${id}/redeliver`));
  const [replayed, ...answers] = await Promise.all([
    ask('POST', `/webhooks/${webhookId}/replay`, { since: since() }),
    ...others,
    ask('PUT', `/webhooks/${webhookId}`, { name: 'renamed' }),
  ]);
  t.is(replayed?.status, 202);
  for (const { status } of answers) t.true([200, 202, 409].includes(status), String(status));
});
