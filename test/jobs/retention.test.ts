import test from 'ava';
import { deleteOld, expireWaiting } from '#domain/jobs/changes.ts';
import { insertJobs } from '#domain/jobs/store.ts';
import { firstIdAt, newId } from '#lib/ids.ts';
import { type EngineScene, openEngine, succeeded, testJobs } from '#test/support/engine.ts';
import { expireJobs } from '#workers/sweeps.ts';

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
  const keep = { succeededHours: 24, failedDays: 14, most: 1000 };
  const gone = [await ended(scene, 'succeeded', '24 hours 1 minute')];
  for (const status of ['failed', 'dead', 'cancelled', 'expired']) {
    gone.push(await ended(scene, status, '14 days 1 minute'));
    await ended(scene, status, '13 days 23 hours');
  }
  await ended(scene, 'succeeded', '23 hours 59 minutes');
  await scene.accept(testJobs.once);
  await scene.db.query(`insert into job_logs (job_id, at, level, message) values ($1, now(), 'info', 'x')`, [gone[0]]);
  t.is(await deleteOld(scene.db, keep), 5);
  t.is(await deleteOld(scene.db, keep), 0);
  const left = await scene.db.query<{ id: string }>('select id from jobs');
  t.is(left.length, 6);
  t.false(left.some(({ id }) => gone.includes(id)));
  t.deepEqual(await scene.db.query('select from job_logs'), []);
});

test('old jobs are deleted some at a time', async (t) => {
  const scene = await openEngine(t);
  for (let i = 0; i < 5; i += 1) await ended(scene, 'succeeded', '2 days');
  const keep = { succeededHours: 24, failedDays: 14, most: 3 };
  t.is(await deleteOld(scene.db, keep), 3);
  t.is(await deleteOld(scene.db, keep), 2);
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
  const projects = { purge: () => Promise.resolve(0), retireLeftOvers: () => Promise.resolve([]) };
  t.is(await expireJobs({ config, db, gate: queues.gate, outcomes: queues.outcomes, projects, log }, [type]), 1);
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
  t.deepEqual(await expireWaiting(scene.db, { types: [type], days: 7, most: 10 }), []);
  await scene.db.query(longAgo);
  t.is((await expireWaiting(scene.db, { types: [type], days: 7, most: 10 })).length, 1);
});
