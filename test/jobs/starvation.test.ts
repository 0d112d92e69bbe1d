import test from 'ava';
import { insertJobs } from '#domain/jobs/store.ts';
import { firstIdAt, newId } from '#lib/ids.ts';
import { type EngineScene, insertProject, openEngine, succeeded, testJobs } from '#test/support/engine.ts';

const { steady } = testJobs;

/** An id as a job has that was accepted so long ago: the gate tells the age of a job by it. */
const idOfAge = (ms: number): string => firstIdAt(Date.now() - ms).slice(0, 24) + newId().slice(24);

const another = (): { readonly id: string; readonly priority: number } => ({ id: newId(), priority: 9 });

const enqueue = async (
  { db, queues }: EngineScene,
  projectId: string,
  jobs: readonly { readonly id: string; readonly priority: number }[],
): Promise<void> => {
  const { type, maxAttempts } = steady;
  const rows = jobs.map(({ id, priority }) => ({
    id,
    projectId,
    type,
    data: 'null',
    maxAttempts,
    requestId: 'r',
    options: { priority },
  }));
  await insertJobs(db, rows);
  for (const { id, priority } of jobs) await queues.gate.admit({ id, type, projectId, priority }, false);
};

test('a job of the lowest priority that has waited 30 s runs while priority 9 floods without an end', async (t) => {
  const scene = await openEngine(t);
  const projectId = await insertProject(scene.db);
  const old = idOfAge(31_000);
  const order: string[] = [];
  let isOver = false;
  await enqueue(scene, projectId, [...Array.from({ length: 20 }, another), { id: old, priority: 0 }]);
  // Each run of the flood brings two more, so that its jobs never come to an end.
  await scene.startWorker(
    async (_data, { jobId }) => {
      order.push(jobId);
      if (jobId !== old && !isOver) await enqueue(scene, projectId, [another(), another()]);
      return succeeded();
    },
    { PLINTH_SYSTEM_SLOTS: 1 },
  );
  await scene.rowWhen(old, 'succeeded');
  isOver = true;
  // At most the window is ahead of it, and every second place of the project is for those that have waited.
  t.true(order.indexOf(old) <= 4, `${order.indexOf(old)} ran before it`);
});

test('beside callers that never leave off, work that has waited 30 s runs all the same', async (t) => {
  const scene = await openEngine(t);
  const projectId = await insertProject(scene.db);
  const old = idOfAge(31_000);
  const order: string[] = [];
  let isOver = false;
  const call = (): Promise<unknown> => scene.jobs.run({ job: steady, projectId, requestId: 'r', data: null }, 30_000);
  const calls: Promise<unknown>[] = [];
  await scene.startWorker(
    async (_data, { jobId }) => {
      order.push(jobId);
      if (jobId !== old && !isOver) calls.push(call(), call());
      return succeeded();
    },
    { PLINTH_SYSTEM_SLOTS: 1 },
  );
  await call();
  await enqueue(scene, projectId, [{ id: old, priority: 0 }]);
  await scene.rowWhen(old, 'succeeded');
  isOver = true;
  t.true(order.length > 0);
  await Promise.all(calls);
});
