import test from 'ava';
import { heldRuns, openEngine, succeeded, testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';
import { stopReasonOf } from '#workers/running.ts';

test('a stopping worker lets its jobs end and takes no more', async (t) => {
  const scene = await openEngine(t);
  const held = heldRuns();
  const worker = await scene.startWorker(held.run, { DRAIN_MS: 30_000 });
  const running = await scene.accept(testJobs.once);
  await until(() => held.contexts.length === 1);
  const drained = worker.drain();
  const late = await scene.accept(testJobs.once);
  held.release();
  await drained;
  t.is((await scene.row(running)).status, 'succeeded');
  t.is((await scene.row(late)).status, 'queued');
  await worker.close();
  await scene.startWorker(() => Promise.resolve(succeeded('by another')));
  t.like(await scene.rowWhen(late, 'succeeded'), { attempt: 1, result: '"by another"' });
});

test('what cannot end within DRAIN_MS is handed back when it may be repeated, and crashed when not', async (t) => {
  const scene = await openEngine(t);
  const held = heldRuns();
  const worker = await scene.startWorker(held.run, { DRAIN_MS: 1000 });
  const [steady, once] = [await scene.accept(testJobs.steady), await scene.accept(testJobs.once)];
  await until(() => held.contexts.length === 2);
  await worker.drain();
  t.deepEqual(
    held.contexts.map(({ signal }) => stopReasonOf(signal)),
    ['drain', 'drain'],
  );
  t.like(await scene.row(steady), { status: 'queued', attempt: 0, next_run_at: null });
  t.like(await scene.row(once), { status: 'failed', error_code: 'crashed', attempt: 1 });
  await worker.close();
  await scene.startWorker(() => Promise.resolve(succeeded('by another')));
  t.like(await scene.rowWhen(steady, 'succeeded'), { attempt: 1, result: '"by another"' });
});
