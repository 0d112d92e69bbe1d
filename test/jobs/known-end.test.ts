import test from 'ava';
import { createJobs } from '#domain/jobs/jobs.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { type EngineScene, heldRuns, insertProject, openEngine, testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';

/** Holds the row of a job, so that nobody records its end. */
const holdRow = async (db: ControlDb, id: string): Promise<() => Promise<void>> => {
  const [held, open] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const done = db.transaction(async (tx) => {
    await tx.query('select from jobs where id = $1 for update', [id]);
    held.resolve();
    await open.promise;
  });
  await held.promise;
  return async () => {
    open.resolve();
    await done;
  };
};

/** A job whose end callers can read and Postgres cannot record yet. */
const endedAhead = async (scene: EngineScene, outcome: 'failed' | 'succeeded') => {
  const projectId = await insertProject(scene.db);
  const gate = Promise.withResolvers<void>();
  await scene.startWorker(async () => {
    await gate.promise;
    const error = outcome === 'failed' ? { code: 'error', message: 'no' } : null;
    return { status: outcome, result: null, error };
  });
  const id = await scene.accept(testJobs.once, projectId);
  await scene.rowWhen(id, 'running');
  const release = await holdRow(scene.db, id);
  gate.resolve();
  const seen = await until(async () => {
    const row = await scene.jobs.get(projectId, id);
    return row.status === outcome && row;
  });
  return { id, projectId, release, seen };
};

test('a job that is read as failed can be retried at once, whether Postgres knows its end or not', async (t) => {
  const scene = await openEngine(t);
  const { id, projectId, release } = await endedAhead(scene, 'failed');
  t.is((await scene.row(id)).status, 'running', 'Postgres does not know the end yet');
  const retried = scene.jobs.retry(projectId, id);
  await release();
  t.is((await retried).status, 'queued');
  const again = await scene.rowWhen(id, 'failed');
  t.is(again.attempt, 1, 'its second run is the first of its new life');
});

test('the time of an end that was read is the one that is recorded', async (t) => {
  const scene = await openEngine(t);
  const { id, projectId, release, seen } = await endedAhead(scene, 'failed');
  t.deepEqual((await scene.jobs.get(projectId, id)).finished_at, seen.finished_at);
  await release();
  const recorded = await scene.rowWhen(id, 'failed');
  t.deepEqual(recorded.finished_at, seen.finished_at);
});

test('an end that is recorded, and its outcome removed, between the two looks at a job is read', async (t) => {
  const scene = await openEngine(t);
  const { id, projectId, release } = await endedAhead(scene, 'succeeded');
  const find = async (): Promise<null> => {
    await release();
    await scene.rowWhen(id, 'succeeded');
    return null;
  };
  const deps = { db: scene.db, outcomes: { find } } as unknown as Parameters<typeof createJobs>[0];
  t.is((await createJobs(deps).get(projectId, id)).status, 'succeeded');
});

test('a job that is read as succeeded cannot be cancelled, whether Postgres knows its end or not', async (t) => {
  const scene = await openEngine(t);
  const { id, projectId, release } = await endedAhead(scene, 'succeeded');
  const cancelled = scene.jobs.cancel(projectId, id);
  await release();
  await t.throwsAsync(cancelled, { message: 'The job is succeeded already.' });
  const [row] = await scene.db.query<{ requested: Date | null }>(
    'select cancel_requested_at as requested from jobs where id = $1',
    [id],
  );
  t.is(row?.requested, null);
});

test('a job that runs is cancelled as before', async (t) => {
  const scene = await openEngine(t);
  const held = heldRuns();
  await scene.startWorker(held.run);
  const projectId = await insertProject(scene.db);
  const id = await scene.accept(testJobs.once, projectId);
  await scene.rowWhen(id, 'running');
  t.is((await scene.jobs.cancel(projectId, id)).status, 'cancelled');
});
