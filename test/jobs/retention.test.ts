import test from 'ava';
import { DatabaseError } from 'pg';
import { deleteOld, expireWaiting } from '#domain/jobs/changes.ts';
import { insertJobs } from '#domain/jobs/store.ts';
import { firstIdAt, newId } from '#lib/ids.ts';
import { type EngineScene, openEngine, succeeded, testJobs } from '#test/support/engine.ts';
import { expireJobs, inSteps } from '#workers/sweeps.ts';

const dayMs = 24 * 3600 * 1000;
const weekMs = 7 * dayMs;

const ended = async ({ db }: EngineScene, status: string, age: string): Promise<string> => {
  const id = newId();
  await db.query(
    `insert into jobs (id, project_id, type, status, data, request_id, finished_at)
     values ($1, $2, 'test.once', $3, 'null', 'r', now() - $4::interval)`,
    [id, newId(), status, age],
  );
  return id;
};

test('jobs are kept as long as is said, those that succeeded shorter than the others, with what belongs to them', async (t) => {
  const scene = await openEngine(t);
  const keep = { succeededHours: 24, failedDays: 14, max: 1000 };
  const gone = [await ended(scene, 'succeeded', '24 hours 1 minute')];
  for (const status of ['failed', 'dead', 'cancelled', 'expired']) {
    gone.push(await ended(scene, status, '14 days 1 minute'));
    await ended(scene, status, '13 days 23 hours');
  }
  await ended(scene, 'succeeded', '23 hours 59 minutes');
  await scene.accept(testJobs.once);
  await scene.db.query(`insert into job_log_parts (job_id, first_line, lines, body) values ($1, 1, 0, '')`, [gone[0]]);
  t.is(await deleteOld(scene.db, keep), 5);
  t.is(await deleteOld(scene.db, keep), 0);
  const left = await scene.db.query<{ id: string }>('select id from jobs');
  t.is(left.length, 6);
  t.false(left.some(({ id }) => gone.includes(id)));
  t.deepEqual(await scene.db.query('select from job_log_parts'), []);
});

test('old jobs are deleted some at a time', async (t) => {
  const scene = await openEngine(t);
  for (let i = 0; i < 5; i += 1) await ended(scene, 'succeeded', '2 days');
  const keep = { succeededHours: 24, failedDays: 14, max: 3 };
  t.is(await deleteOld(scene.db, keep), 3);
  t.is(await deleteOld(scene.db, keep), 2);
});

test('a step is never longer than asked, whatever the ends of the jobs', async (t) => {
  const scene = await openEngine(t);
  for (const status of ['succeeded', 'failed', 'dead', 'cancelled', 'expired'])
    for (let i = 0; i < 2; i += 1) await ended(scene, status, '20 days');
  const keep = { succeededHours: 24, failedDays: 14, max: 3 };
  for (const gone of [3, 3, 3, 1, 0]) t.is(await deleteOld(scene.db, keep), gone);
});

/** A table of rows that take their time to delete; what was asked of it. */
const slowTable = (rows: number, msPerRow: number) => {
  const requested: number[] = [];
  let [now, left] = [0, rows];
  const step = (max: number): Promise<number> => {
    requested.push(max);
    const count = Math.min(max, left);
    const took = count * msPerRow;
    now += Math.min(took, 14_000);
    if (took > 14_000) {
      const timeout = new DatabaseError('canceling statement due to statement timeout', 0, 'error');
      timeout.code = '57014';
      return Promise.reject(timeout);
    }
    left -= count;
    return Promise.resolve(count);
  };
  return { requested, step, clock: { now: () => now }, left: () => left };
};

test('rows that are heavy to delete are deleted in smaller steps, which is remembered', async (t) => {
  const table = slowTable(100, 500);
  const sweep = inSteps(table.step, 5000, table.clock);
  await sweep();
  t.deepEqual(table.requested, [200, 100, 50, 25, 25, 25, 25, 25].slice(0, table.requested.length));
  t.true(table.left() < 100);
  await sweep();
  t.is(table.left(), 0);
  t.true(table.requested.slice(3).every((max) => max === 25));
});

test('light rows are deleted in larger steps, and one that is too large begins again below the first', async (t) => {
  const light = slowTable(20_000, 0.01);
  await inSteps(light.step, 5000, light.clock)();
  t.is(light.left(), 0);
  t.deepEqual(light.requested.slice(0, 7), [200, 400, 800, 1600, 3200, 5000, 5000]);
  let isHeavy = false;
  const heavy = slowTable(1000, 100);
  const sweep = inSteps((max) => (isHeavy ? heavy : light).step(max), 5000, heavy.clock);
  await sweep();
  isHeavy = true;
  await sweep();
  t.deepEqual(heavy.requested.slice(0, 3), [200, 100, 100]);
});

test('a sweep ends some time, and a failure that is no time-out ends it at once', async (t) => {
  const endless = slowTable(Infinity, 40);
  await inSteps(endless.step, 5000, endless.clock)();
  t.is(endless.requested.length, 6);
  const broken = inSteps(() => Promise.reject(new Error('away')));
  await t.throwsAsync(broken(), { message: 'away' });
});

test('a job that waited too long has expired: it never runs, and leaves the gate', async (t) => {
  const scene = await openEngine(t);
  const { config, db, log, queues } = scene;
  const projectId = newId();
  const old = firstIdAt(Date.now() - weekMs - 60_000);
  const { type, maxAttempts } = testJobs.once;
  await insertJobs(db, [{ id: old, projectId, type, data: 'null', maxAttempts, requestId: 'r' }]);
  await db.query(`update jobs set queued_at = now() - interval '7 days 1 minute' where id = $1`, [old]);
  await queues.gate.admit({ id: old, type, projectId }, false);
  const young = await scene.accept(testJobs.once, projectId);
  t.is(await expireJobs({ config, db, gate: queues.gate, outcomes: queues.outcomes, log }, [type]), 1);
  t.like(await scene.row(old), { status: 'expired', error_code: 'expired', attempt: 0 });
  t.is((await queues.gate.stats('test.once')).waiting, 1);
  const ran: string[] = [];
  await scene.startWorker((_data, { jobId }) => {
    ran.push(jobId);
    return Promise.resolve(succeeded());
  });
  await scene.rowWhen(young, 'succeeded');
  t.deepEqual(ran, [young]);
});

test('a job that was run again has not waited since it was first accepted', async (t) => {
  const scene = await openEngine(t);
  const { type, maxAttempts } = testJobs.once;
  const [id, projectId] = [firstIdAt(Date.now() - 10 * dayMs), newId()];
  await insertJobs(scene.db, [{ id, projectId, type, data: 'null', maxAttempts, requestId: 'r' }]);
  const longAgo = `update jobs set created_at = now() - interval '10 days', queued_at = now() - interval '10 days'`;
  await scene.db.query(longAgo);
  await scene.jobs.cancel(projectId, id);
  await scene.jobs.retry(projectId, id);
  t.deepEqual(await expireWaiting(scene.db, { types: [type], days: 7, max: 10 }), []);
  await scene.db.query(longAgo);
  t.is((await expireWaiting(scene.db, { types: [type], days: 7, max: 10 })).length, 1);
});
