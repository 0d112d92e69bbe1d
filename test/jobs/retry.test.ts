import test from 'ava';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { JobOutcome } from '#queues/define.ts';
import { openEngine, succeeded, testJobs } from '#test/support/engine.ts';

const failed: JobOutcome = { status: 'failed', result: '"bad"', error: { code: 'error', message: 'no' } };

test('a job that failed runs anew under its id, as if it had never run', async (t) => {
  const scene = await openEngine(t);
  const attempts: number[] = [];
  await scene.startWorker((_data, { attempt }) => {
    attempts.push(attempt);
    return Promise.resolve(attempts.length === 1 ? failed : succeeded('good'));
  });
  const id = await scene.accept(testJobs.once);
  const { project_id: projectId } = await scene.rowWhen(id, 'failed');
  const again = await scene.jobs.retry(projectId, id);
  t.like(again, {
    id,
    status: 'queued',
    attempt: 0,
    result: null,
    error_code: null,
    started_at: null,
    finished_at: null,
  });
  t.like(await scene.rowWhen(id, 'succeeded'), { attempt: 1, result: '"good"', error_code: null });
  t.deepEqual(attempts, [1, 1]);
});

for (const status of ['dead', 'cancelled', 'expired']) {
  test(`a job that is ${status} can be run again`, async (t) => {
    const scene = await openEngine(t);
    const id = await scene.accept(testJobs.once);
    const { project_id: projectId } = await scene.row(id);
    await scene.jobs.cancel(projectId, id);
    await scene.db.query('update jobs set status = $2 where id = $1', [id, status]);
    await scene.startWorker(() => Promise.resolve(succeeded('now')));
    await scene.jobs.retry(projectId, id);
    t.like(await scene.rowWhen(id, 'succeeded'), { result: '"now"' });
  });
}

test('what waits, runs or has succeeded cannot be run again', async (t) => {
  const scene = await openEngine(t);
  const id = await scene.accept(testJobs.once);
  const { project_id: projectId } = await scene.row(id);
  for (const status of ['queued', 'running', 'succeeded']) {
    await scene.db.query('update jobs set status = $2 where id = $1', [id, status]);
    await t.throwsAsync(scene.jobs.retry(projectId, id), { code: 'conflict' }, status);
  }
  await t.throwsAsync(scene.jobs.retry(newId(), id), { code: 'not_found' });
});

test('of many who run a job again at once one does, and it runs once', async (t) => {
  const scene = await openEngine(t);
  let runs = 0;
  await scene.startWorker(() => {
    runs += 1;
    return Promise.resolve(runs === 1 ? failed : succeeded());
  });
  const id = await scene.accept(testJobs.once);
  const { project_id: projectId } = await scene.rowWhen(id, 'failed');
  const requested = await Promise.allSettled(Array.from({ length: 10 }, () => scene.jobs.retry(projectId, id)));
  await scene.rowWhen(id, 'succeeded');
  t.is(requested.filter((one) => one.status === 'fulfilled').length, 1);
  t.is(runs, 2);
});

test('faults of ours are tried again as rows with growing attempts; the failed ones are kept', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker((_data, { attempt }) =>
    attempt < 3 ? Promise.reject(new Error('secret detail')) : Promise.resolve(succeeded('third')),
  );
  const id = await scene.accept(testJobs.steady);
  t.like(await scene.rowWhen(id, 'succeeded'), { attempt: 3, result: '"third"', crashes: 0 });
  const kept = await scene.db.query(
    'select attempt, error_code, error_message from job_attempts where job_id = $1 order by attempt',
    [id],
  );
  t.deepEqual(
    kept.map((row) => [row['attempt'], row['error_code']]),
    [
      [1, 'internal'],
      [2, 'internal'],
    ],
  );
  t.notRegex(JSON.stringify(kept), /secret/);
});

test('a job that keeps failing is dead after its attempts, with its processor’s last word', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker({
    run: () => Promise.reject(new Error('again and again')),
    giveUp: ({ code }) => Promise.resolve(JSON.stringify({ code })),
  });
  const id = await scene.accept(testJobs.steady);
  t.like(await scene.rowWhen(id, 'dead'), { attempt: 3, error_code: 'internal', result: '{"code":"internal"}' });
});

test('a refusal is not tried again', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker(() => Promise.reject(new ServiceError('not_found', 'No such thing.')));
  const id = await scene.accept(testJobs.steady);
  t.like(await scene.rowWhen(id, 'failed'), { attempt: 1, error_code: 'not_found' });
});

test('a job that does not end within its time-out is stopped and failed', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker(
    (_data, { signal }) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('stopped')))),
  );
  const id = await scene.accept(testJobs.hasty);
  t.like(await scene.rowWhen(id, 'failed'), { attempt: 1, error_code: 'timeout' });
});
