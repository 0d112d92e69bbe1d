import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { fanOut, isEventWaiting } from '#domain/webhooks/fan-out.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { openWorkerRedis } from '#lib/redis.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { startFanOut } from '#workers/webhooks/fan-out.ts';
import { addProject, addWebhook, emit } from './pipeline-scene.ts';

const platform = usePlatform(test, { worker: false });
const url = 'http://127.0.0.1:1/';

const subscribed = async (): Promise<string> => {
  const project = await addProject(platform());
  await addWebhook(platform(), project, { url });
  return project.id;
};

const emitMany = (projectId: string, count: number) =>
  platform().db.transaction(
    (tx) =>
      tx.query(
        `insert into outbox_events (project_id, event, data) select $1, 'auth.login', '{}' from generate_series(1, $2::int)`,
        [projectId, count],
      ),
    systemActor,
  );

const waiting = async (projectId: string): Promise<number> => {
  const rows = await platform().db.query('select from outbox_events where project_id = $1 and fanned_at is null', [
    projectId,
  ]);
  return rows.length;
};

test.serial('a pass concerns the projects that it is told of, or all others', async (t) => {
  const { db } = platform();
  const [large, quiet] = [await subscribed(), await subscribed()];
  for (const id of [large, quiet]) await emit(platform(), id, 'auth.login');
  t.like(await fanOut(db, null, { only: [large] }), { events: 1, eventsOf: { [large]: 1 } });
  t.deepEqual([await waiting(large), await waiting(quiet)], [0, 1]);
  t.false(await isEventWaiting(db, { only: [large] }));
  t.false(await isEventWaiting(db, { except: [quiet] }));
  t.true(await isEventWaiting(db, { except: [large] }));
  t.like(await fanOut(db, null, { except: [large] }), { events: 1 });
  t.false(await isEventWaiting(db));
});

/** So many runs that sleep until an event comes. */
const addSleepers = (projectId: string, count: number) =>
  platform().db.query(
    `with made as (
       insert into jobs (id, project_id, type, status, data, max_attempts, request_id, has_steps, step_wait, next_run_at)
       select uuid_v7(), $1, 'test.asleep', 'waiting', '{}', 1, 'asleep', true, 'event', 'infinity'
       from generate_series(1, $2::int) returning id, project_id)
     insert into job_steps (job_id, name, kind, status, started_at, due_at, project_id, event)
     select id, 'go', 'event', 'waiting', now(), 'infinity', project_id, 'auth.signup' from made`,
    [projectId, count],
  );

test.serial('the more steps wait for events of a project, the fewer of its events a pass takes', async (t) => {
  const { db } = platform();
  const [many, few] = [await subscribed(), await subscribed()];
  await addSleepers(many, 10_000);
  await addSleepers(few, 100);
  for (const id of [many, few]) await emitMany(id, 50);
  t.like(await fanOut(db, null, { only: [few] }), { events: 50 });
  t.like(await fanOut(db, null, { only: [many] }), { events: 1 });
  t.is(await waiting(many), 49);
  await db.query('delete from jobs where project_id = any ($1::uuid[])', [[many, few]]);
  while ((await fanOut(db)).events > 0);
});

/** Counts the events that passes over this connection had. */
const counted = (db: ControlDb) => {
  let events = 0;
  const counting: ControlDb = {
    ...db,
    transaction: async (work, settings) => {
      const result = await db.transaction(work, settings);
      events += Number(Reflect.get(Object(result), 'events') ?? 0);
      return result;
    },
  };
  return { counting, events: () => events };
};

test.serial(
  'what a project has beyond its allowance is passed on over the connections of large backlogs',
  async (t) => {
    const { db, config } = platform();
    const { log } = memoryLog();
    const [large, quiet] = [await subscribed(), await subscribed()];
    await emitMany(large, 3000);
    const [usual, low] = [counted(db), counted(db)];
    const fanOuts = startFanOut({
      db: usual.counting,
      backlogDb: low.counting,
      log,
      redis: openWorkerRedis(config.REDIS_URL, log),
      prefix: config.PLINTH_REDIS_PREFIX,
      onDeliveries: () => undefined,
      onLockedElsewhere: () => undefined,
    });
    await emit(platform(), quiet, 'auth.login');
    await until(async () => (await waiting(large)) === 0 && (await waiting(quiet)) === 0);
    await fanOuts.stop();
    t.is(usual.events() + low.events(), 3001);
    t.true(low.events() > 0, 'its allowance is 400 events, and 200 a second');
  },
);
