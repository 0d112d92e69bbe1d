import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import type { Standing } from '#domain/jobs/jobs.ts';
import { findJob } from '#domain/jobs/store.ts';
import { newId } from '#lib/ids.ts';
import { type EngineScene, heldRuns, insertProject, openEngine, testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';

const { once, steady } = testJobs;

const standing = async (scene: EngineScene, id: string): Promise<Standing | null> => {
  const { project_id: projectId } = await scene.row(id);
  const row = await findJob(scene.db, projectId, id);
  const [place = null] = row ? await scene.jobs.places([row]) : [];
  return place;
};

test('a job over its project’s limit waits for the project; its place counts from 1', async (t) => {
  const scene = await openEngine(t);
  const held = heldRuns();
  await scene.startWorker(held.run);
  const projectId = newId();
  const ids = [];
  for (let i = 0; i < 5; i += 1) ids.push(await scene.accept(once, projectId));
  await until(() => held.contexts.length === 2);
  t.is(await standing(scene, ids[0] ?? ''), null, 'what runs has no place');
  t.deepEqual(await standing(scene, ids[2] ?? ''), { position: 1, reason: 'project_limit' });
  t.deepEqual(await standing(scene, ids[4] ?? ''), { position: 3, reason: 'project_limit' });
  held.release();
});

test('a job that finds all workers busy waits for everybody', async (t) => {
  const scene = await openEngine(t, { PLINTH_SYSTEM_SLOTS: '1' });
  const held = heldRuns();
  await scene.startWorker(held.run);
  for (let i = 0; i < 2; i += 1) await scene.accept(once);
  const id = await scene.accept(once);
  await until(() => held.contexts.length === 1);
  t.deepEqual(await standing(scene, id), { position: 1, reason: 'global_limit' });
  held.release();
});

test('a job that was handed over and not begun is next in the queue', async (t) => {
  const scene = await openEngine(t, { PLINTH_SYSTEM_SLOTS: '1' });
  const held = heldRuns();
  await scene.startWorker(held.run);
  const [first, second] = [await scene.accept(once), await scene.accept(once)];
  await until(() => held.contexts.length === 1);
  const waits = held.contexts[0]?.jobId === first ? second : first;
  t.deepEqual(await standing(scene, waits), { position: 1, reason: 'queue' });
  held.release();
});

test('a job of a paused project says so', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker(heldRuns().run);
  const projectId = await insertProject(scene.db);
  await scene.db.transaction(
    (tx) => tx.query('insert into job_pauses (project_id, type) values ($1, null)', [projectId]),
    systemActor,
  );
  await scene.queues.gate.rulesChanged({ projectId });
  const id = await scene.accept(once, projectId);
  t.deepEqual(await standing(scene, id), { position: 1, reason: 'paused' });
});

test('a job that waits for another try says so and has no place', async (t) => {
  const scene = await openEngine(t);
  const id = await scene.accept(steady);
  await scene.db.query(`update jobs set attempt = 1, next_run_at = now() + interval '1 minute' where id = $1`, [id]);
  t.deepEqual(await standing(scene, id), { position: null, reason: 'retry_backoff' });
});

test('while Redis is away jobs are read without their place', async (t) => {
  const scene = await openEngine(t);
  const id = await scene.accept(once);
  t.truthy(await standing(scene, id));
  scene.queues.redis.disconnect();
  t.is(await standing(scene, id), null);
});
