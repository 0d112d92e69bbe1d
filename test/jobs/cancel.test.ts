import test from 'ava';
import { newId } from '#lib/ids.ts';
import { heldRuns, openEngine, succeeded, testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';
import { stopReasonOf } from '#workers/running.ts';

test('a waiting job that is cancelled ends at once, never runs, and its caller is told', async (t) => {
  const scene = await openEngine(t);
  const projectId = newId();
  const waiting = scene.jobs.run({ job: testJobs.steady, projectId, requestId: 'r', data: null }, 20_000);
  const [{ id }] = await until(async () => {
    const rows = await scene.db.query<{ id: string }>('select id from jobs where project_id = $1', [projectId]);
    return rows.length > 0 && (rows as [{ id: string }]);
  });
  const cancelled = await scene.jobs.cancel(projectId, id);
  t.like(cancelled, { status: 'cancelled', error_code: 'cancelled', attempt: 0, started_at: null });
  t.true(cancelled.finished_at instanceof Date);
  t.like(await waiting, { id, outcome: { status: 'cancelled' } });
  const { contexts, run } = heldRuns();
  await scene.startWorker(run);
  const after = await scene.accept(testJobs.once);
  await until(() => contexts.length > 0);
  t.deepEqual(
    contexts.map(({ jobId }) => jobId),
    [after],
  );
});

test('a running job that is cancelled is told to stop, and ends as cancelled with what it had', async (t) => {
  const scene = await openEngine(t);
  const held = heldRuns();
  await scene.startWorker(async (data, context) => ({ ...(await held.run(data, context)), result: '"so far"' }));
  const id = await scene.accept(testJobs.once);
  const { project_id: projectId } = await scene.rowWhen(id, 'running');
  await until(() => held.contexts.length > 0);
  const cancelled = await scene.jobs.cancel(projectId, id);
  t.like(cancelled, { status: 'cancelled', error_code: 'cancelled', attempt: 1 });
  const [context] = held.contexts;
  t.is(context && stopReasonOf(context.signal), 'cancelled');
  t.like(await scene.rowWhen(id, 'cancelled'), { result: '"so far"' });
});

test('a run that had ended well when the wish to cancel came has succeeded', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker(async (_data, { signal }) => {
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    return succeeded('done');
  });
  const id = await scene.accept(testJobs.once);
  const { project_id: projectId } = await scene.rowWhen(id, 'running');
  t.like(await scene.jobs.cancel(projectId, id), { status: 'succeeded', result: '"done"' });
});

test('a wish to cancel that Redis lost is repeated from the row', async (t) => {
  const scene = await openEngine(t);
  const held = heldRuns();
  await scene.startWorker(held.run);
  const id = await scene.accept(testJobs.once);
  await scene.rowWhen(id, 'running');
  await scene.db.query('update jobs set cancel_requested_at = now() where id = $1', [id]);
  t.like(await scene.rowWhen(id, 'cancelled'), { error_code: 'cancelled' });
});

test('what has ended cannot be cancelled, and what is another project’s is not there', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker(() => Promise.resolve(succeeded()));
  const id = await scene.accept(testJobs.once);
  const { project_id: projectId } = await scene.rowWhen(id, 'succeeded');
  await t.throwsAsync(scene.jobs.cancel(projectId, id), { code: 'conflict', message: /succeeded already/ });
  await t.throwsAsync(scene.jobs.cancel(newId(), id), { code: 'not_found' });
  await t.throwsAsync(scene.jobs.cancel(projectId, newId()), { code: 'not_found' });
});

test('a job that waits for another try can be cancelled, and is not tried again', async (t) => {
  const scene = await openEngine(t);
  const tries: number[] = [];
  await scene.startWorker((_data, { attempt }) => {
    tries.push(attempt);
    return Promise.reject(new Error('flaky'));
  });
  const id = await scene.accept(testJobs.steady);
  const row = await until(async () => {
    const now = await scene.row(id);
    return now.status === 'queued' && now.next_run_at !== null && now;
  });
  await scene.jobs.cancel(row.project_id, id).catch(() => scene.jobs.cancel(row.project_id, id));
  const before = tries.length;
  const other = await scene.accept(testJobs.steady);
  await scene.rowWhen(other, 'dead');
  t.is(tries.length - before, 3, 'those of the other job');
  t.is((await scene.row(id)).status, 'cancelled');
});
