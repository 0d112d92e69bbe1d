import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { newId } from '#lib/ids.ts';
import { insertProject, openEngine, testJobs } from '#test/support/engine.ts';

// Statements of the release before 0061, which are made while its processes and those of this one run side by side.

test('a worker of the release before leads shards and starts jobs under the old names', async (t) => {
  const { db } = await openEngine(t);
  const [worker, id, run] = [newId(), newId(), newId()];
  const projectId = await insertProject(db);
  const { type } = testJobs.steady;
  await db.query(`insert into job_lanes (name) select name from unnest($1::text[]) as name on conflict do nothing`, [
    [type],
  ]);
  const [{ epoch } = { epoch: 0 }] = await db.transaction(async (tx) => {
    await tx.query('lock table job_lanes in access exclusive mode');
    return tx.query<{ epoch: number }>(
      `insert into job_lanes (name, epoch) values ($1, 1)
       on conflict (name) do update set epoch = job_lanes.epoch + 1 returning epoch`,
      [type],
    );
  });
  t.deepEqual(await db.query('select name, epoch from queue_shards'), [{ name: type, epoch }]);
  const led = await db.query(
    `with free as materialized (
       select name from job_lanes where name = $1 and leader is null for update skip locked
     ) update job_lanes l set leader = $2, leader_until = now() + interval '5 seconds' from free where l.name = free.name
     returning l.name`,
    [type, worker],
  );
  t.deepEqual(led, [{ name: type }]);
  await db.query(
    `insert into jobs (id, project_id, type, status, data, max_attempts, request_id)
     values ($1, $2, $3, 'queued', 'null', 1, 'r')`,
    [id, projectId, type],
  );
  const started = await db.query<{ id: string }>('select id from begin_jobs($1, $2, $3, $4, $5)', [
    [id],
    [run],
    [worker],
    [type],
    [epoch],
  ]);
  t.deepEqual(started, [{ id }]);
});

test('a worker of the release before locks and schedules throttles, and writes heartbeats, under the old names', async (t) => {
  const { db } = await openEngine(t);
  const projectId = await insertProject(db);
  const id = newId();
  await db.transaction(
    (tx) =>
      tx.query(
        `insert into webhooks (id, project_id, url, events, secret_sealed)
         values ($1, $2, 'https://example.com/', array['*'], '')`,
        [id, projectId],
      ),
    systemActor,
  );
  const locked = await db.transaction((tx) =>
    tx.query<{ webhook_id: string }>(
      `select l.webhook_id, w.is_active from webhook_lanes l join webhooks w on w.id = l.webhook_id
       where l.webhook_id = $1 for update of l skip locked`,
      [id],
    ),
  );
  t.is(locked[0]?.webhook_id, id);
  await db.query('update webhook_lanes set slow_in = $2, asked_until = now(), next_at = now() where webhook_id = $1', [
    id,
    projectId,
  ]);
  const [throttle] = await db.query<{ slow_scope: string; is_paused: boolean }>(
    'select slow_scope, retry_after is not null as is_paused from webhook_throttles where webhook_id = $1',
    [id],
  );
  t.deepEqual(throttle, { slow_scope: projectId, is_paused: true });
  t.deepEqual(await db.query('select id from lanes_with_work($1) as id', [[id]]), [{ id }]);
  const heartbeat = newId();
  const touch = 'insert into ai_call_keepers (id) values ($1) on conflict (id) do update set seen_at = now()';
  await db.query(touch, [heartbeat]);
  await db.query(touch, [heartbeat]);
  t.deepEqual(await db.query('select id from ai_call_heartbeats'), [{ id: heartbeat }]);
});
