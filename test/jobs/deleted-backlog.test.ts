import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { abandonJobsOf, deleteJobsOf, endTeller } from '#domain/jobs/abandon.ts';
import { insertJobs } from '#domain/jobs/store.ts';
import { markProjectDeleted, markProjectRetired } from '#domain/projects/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { type EngineScene, heldRuns, insertProject, openEngine, succeeded, testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';

const { type } = testJobs.steady;
const untold = { maxMs: 120_000, onEnded: () => Promise.resolve() };

const deleteProject = (db: ControlDb, projectId: string): Promise<void> =>
  db.transaction((tx) => markProjectDeleted(tx, projectId), systemActor);

/** Rows as a flood leaves them, without the gate. */
const flood = (db: ControlDb, projectId: string, count: number): Promise<unknown> =>
  db.query(
    `insert into jobs (id, project_id, type, status, data, max_attempts, request_id)
     select uuid_v7(), $1, $2, 'queued', 'null', 1, 'flood' from generate_series(1, $3)`,
    [projectId, type, count],
  );

const statusesOf = async ({ db }: EngineScene, projectId: string): Promise<Record<string, number>> => {
  const rows = await db.query<{ status: string; jobs: number }>(
    'select status, count(*)::int as jobs from jobs where project_id = $1 group by status',
    [projectId],
  );
  return Object.fromEntries(rows.map(({ status, jobs }) => [status, jobs]));
};

test('20,000 waiting jobs of a deleted project are cancelled in many commits, and none of them begins', async (t) => {
  const scene = await openEngine(t);
  const { db, queues } = scene;
  const [doomed, other] = [await insertProject(db), await insertProject(db)];
  let started = 0;
  await flood(db, doomed, 20_000);
  await deleteProject(db, doomed);
  await scene.startWorker((_data, { projectId }) => {
    if (projectId === doomed) started += 1;
    return Promise.resolve(succeeded());
  });
  await queues.gate.drop(doomed);
  const neighbour = scene.accept(testJobs.steady, other);
  t.true(await abandonJobsOf(db, doomed, untold));
  t.deepEqual(await statusesOf(scene, doomed), { cancelled: 20_000 });
  const [commits] = await db.query<{ count: number }>(
    'select count(distinct finished_at)::int as count from jobs where project_id = $1',
    [doomed],
  );
  t.is(commits?.count, 40, 'each batch of 500 is a transaction of its own');
  await scene.rowWhen(await neighbour, 'succeeded');
  t.is(started, 0);
});

test('a job of a deleted project is refused when it would begin: it ends as cancelled, and its caller is told', async (t) => {
  const scene = await openEngine(t);
  const projectId = await insertProject(scene.db);
  const waiting = scene.jobs.run({ job: testJobs.steady, projectId, requestId: 'r', data: null }, 20_000);
  await until(async () => (await scene.queues.gate.stats(type)).waiting === 1);
  await deleteProject(scene.db, projectId);
  let started = 0;
  await scene.startWorker(() => {
    started += 1;
    return Promise.resolve(succeeded());
  });
  t.like((await waiting).outcome, { status: 'cancelled', error: { code: 'cancelled' } });
  t.is(started, 0);
  await until(async () => (await scene.queues.gate.stats(type)).leased === 0);
});

test('a job that reached its row after the deletion was finished ends, too', async (t) => {
  const scene = await openEngine(t);
  const projectId = await insertProject(scene.db);
  await deleteProject(scene.db, projectId);
  await markProjectRetired(scene.db, projectId);
  const id = newId();
  await insertJobs(scene.db, [{ id, projectId, type, data: 'null', maxAttempts: 1, requestId: 'r' }]);
  await scene.startWorker(() => Promise.resolve(succeeded()));
  t.is((await scene.rowWhen(id, 'cancelled')).attempt, 0);
});

test('a run that began while its project was deleted is stopped', async (t) => {
  const scene = await openEngine(t);
  const projectId = await insertProject(scene.db);
  const held = heldRuns();
  await scene.startWorker(held.run);
  const id = await scene.accept(testJobs.steady, projectId);
  await scene.rowWhen(id, 'running');
  // Nobody asks for its cancellation: the deletion did not see it run.
  await deleteProject(scene.db, projectId);
  t.is((await scene.rowWhen(id, 'cancelled')).error_code, 'cancelled');
});

test('callers that wait for jobs of a deleted project are told at once', async (t) => {
  const scene = await openEngine(t);
  const projectId = await insertProject(scene.db);
  const waiting = [1, 2, 3].map(() =>
    scene.jobs.run({ job: testJobs.steady, projectId, requestId: 'r', data: null }, 60_000),
  );
  await until(async () => (await scene.queues.gate.stats(type)).waiting === 3);
  await deleteProject(scene.db, projectId);
  await scene.queues.gate.drop(projectId);
  await abandonJobsOf(scene.db, projectId, { maxMs: 60_000, onEnded: endTeller(scene.queues.outcomes) });
  for (const { outcome } of await Promise.all(waiting)) t.is(outcome?.status, 'cancelled');
});

test('the gate drops the backlog of one project and keeps that of its neighbours', async (t) => {
  const scene = await openEngine(t);
  const { gate } = scene.queues;
  const [doomed, other] = [await insertProject(scene.db), await insertProject(scene.db)];
  const ids: string[] = [];
  for (let i = 0; i < 3; i += 1) ids.push(await scene.accept(testJobs.steady, doomed));
  const kept = await scene.accept(testJobs.steady, other);
  await gate.drop(doomed);
  await gate.drop(doomed);
  t.is((await gate.stats(type)).waiting, 1);
  const places = await gate.places([...ids, kept].map((id, i) => ({ id, type, projectId: i < 3 ? doomed : other })));
  t.deepEqual(
    places.map(({ state }) => state),
    ['absent', 'absent', 'absent', 'waiting'],
  );
});

test('two processes do not work on the jobs of one deleted project at a time', async (t) => {
  const { db } = await openEngine(t);
  const projectId = await insertProject(db);
  await flood(db, projectId, 3000);
  await deleteProject(db, projectId);
  const done = await Promise.all([abandonJobsOf(db, projectId, untold), abandonJobsOf(db, projectId, untold)]);
  t.true(done.includes(true));
  const [left] = await db.query<{ count: number }>(
    `select count(*)::int as count from jobs where project_id = $1 and status = 'queued'`,
    [projectId],
  );
  t.is(left?.count, 0);
});

test('what the time did not suffice for is continued', async (t) => {
  const scene = await openEngine(t);
  const { db } = scene;
  const projectId = await insertProject(db);
  await flood(db, projectId, 1200);
  await deleteProject(db, projectId);
  t.false(await abandonJobsOf(db, projectId, { ...untold, maxMs: 0 }));
  t.deepEqual(await statusesOf(scene, projectId), { queued: 1200 });
  t.true(await abandonJobsOf(db, projectId, untold));
  t.false(await deleteJobsOf(db, projectId, 0));
  t.deepEqual(await statusesOf(scene, projectId), { cancelled: 1200 });
  t.true(await deleteJobsOf(db, projectId, 120_000));
  t.deepEqual(await statusesOf(scene, projectId), {});
});

test('the provisioning of a database goes on when its project is deleted, so that it can put away what it made', async (t) => {
  const { db } = await openEngine(t);
  const [projectId, id, run, worker] = [await insertProject(db), newId(), newId(), newId()];
  const job = { id, projectId, type: 'project.provision', data: '{}', maxAttempts: 1, requestId: 'r' };
  await insertJobs(db, [job]);
  await db.query(`insert into queue_shards (name, epoch) values ('l', 1)`);
  await deleteProject(db, projectId);
  t.true(await abandonJobsOf(db, projectId, untold));
  const rows = await db.query(
    `select from start_jobs(array[$1]::uuid[], array[$2]::uuid[], array[$3]::uuid[], '{l}', '{1}')`,
    [id, run, worker],
  );
  t.is(rows.length, 1);
});
