import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test);

const day = 24 * 3600 * 1000;
const sleeping = `exports.handler = async (payload, { step }) => {
  await step.run('before', () => payload);
  await step.sleep(${day});
  return step.run('after', () => 1);
}`;

test('whoever waits for a run that begins to sleep gets the answer that it goes on, long before the wait is over', async (t) => {
  const one = await scene(sleeping);
  const began = performance.now();
  const answer = await one.ask('POST', `/functions/${one.fn.id}/invoke`, {
    body: { payload: 1 },
    headers: { prefer: 'wait=60' },
  });
  t.deepEqual([answer.status, answer.body.status], [202, 'queued'], answer.text);
  t.true(performance.now() - began < 50_000);
  t.is(answer.headers.get('location'), `/projects/${one.project.id}/jobs/${answer.body.job_id}`);
  const job = await one.jobWhen(answer.body.job_id, 'waiting');
  t.like(job, { waiting_reason: 'step_sleep', attempt: 1, result: null, error: null });

  const key = { 'idempotency-key': 'once' };
  const first = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 }, headers: key });
  const second = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 }, headers: key });
  t.deepEqual([first.status, second.status, second.body.job_id], [202, 202, first.body.job_id], second.text);
});

test('a run that sleeps can be cancelled, and then goes on where it was when it is run again', async (t) => {
  const one = await scene(sleeping);
  const id = await one.begin('x');
  await one.jobWhen(id, 'waiting');
  const cancelled = await one.ask('POST', `/jobs/${id}/cancel`);
  t.like(cancelled.body, { status: 'cancelled', waiting_reason: null });
  t.like(cancelled.body.steps, [
    { name: 'before', status: 'succeeded', result: 'x' },
    { name: 'sleep', status: 'cancelled' },
  ]);
  t.is((await one.ask('POST', `/jobs/${id}/cancel`)).status, 409);
  const { db } = platform();
  const [{ started_at: before } = { started_at: null }] = cancelled.body.steps as { started_at: string | null }[];
  t.is((await one.ask('POST', `/jobs/${id}/retry`)).status, 202);
  const again = await one.jobWhen(id, 'waiting');
  t.is(again.steps[0].started_at, before, 'what was done is not done again');
  await db.query('update job_steps set due_at = now() where job_id = $1 and status = $2', [id, 'waiting']);
  await db.query('update jobs set next_run_at = now() where id = $1', [id]);
  t.like(await one.jobWhen(id, 'succeeded', 'failed'), { status: 'succeeded', result: { result: 1 } });
});

test('runs that sleep are found by their status, and cancelled together', async (t) => {
  const one = await scene(sleeping);
  const ids = [await one.begin(1), await one.begin(2)];
  for (const id of ids) await one.jobWhen(id, 'waiting');
  const listed = (await one.ask('GET', '/jobs?status=waiting')).body;
  t.deepEqual([listed.total, 'steps' in listed.jobs[0]], [2, false]);
  const { body } = await one.ask('POST', '/jobs/cancel', { body: { filter: { status: 'waiting' } } });
  t.deepEqual(body, { matched: 2, changed: 2 });
  t.is((await one.ask('GET', '/jobs?status=waiting')).body.total, 0);
});

test('a job is run again from a step on, with the results of those before it', async (t) => {
  const one = await scene(`exports.handler = async (payload, { step, db }) => {
    await db.query('create table if not exists effects (id bigint generated always as identity, name text)');
    const note = (name) => step.run(name, async () => (await db.insert('effects', { name })).id);
    const all = [await note('a'), await note('b'), await note('c')];
    if ((await db.query('select 1 from effects')).length < 6) throw new Error('more');
    return all;
  }`);
  const id = await one.begin();
  t.like(await one.jobWhen(id, 'failed'), { error: { code: 'error', message: 'more' } });
  const refused = await one.ask('POST', `/jobs/${id}/retry`, { body: { from_step: 'd' } });
  t.deepEqual([refused.status, refused.body.code], [400, 'validation_failed'], refused.text);
  t.is((await one.ask('POST', `/jobs/${id}/retry`, { body: { step: 'b' } })).status, 400);
  t.is((await one.ask('POST', `/jobs/${id}/retry`, { body: { from_step: 'b' } })).status, 202);
  await until(async () => (await one.ask('GET', `/jobs/${id}`)).body.status === 'failed');
  t.is((await one.ask('POST', `/jobs/${id}/retry`, { body: { from_step: 'c' } })).status, 202);
  const job = await one.jobWhen(id, 'succeeded', 'failed');
  t.deepEqual(job.result?.result, [1, 4, 6], JSON.stringify(job));
});

test('a run has at most 1,000 steps, and 4 MB of results', async (t) => {
  const many = await scene(`exports.handler = async (payload, { step }) => {
    for (let n = 0; n < payload; n += 1) await step.run('s', () => n);
    return 'done';
  }`);
  t.like(await many.jobWhen(await many.begin(1000), 'succeeded', 'failed'), { status: 'succeeded' });
  t.like(await many.jobWhen(await many.begin(1001), 'succeeded', 'failed'), {
    status: 'failed',
    error: { code: 'too_many_steps' },
  });
  const large = await scene(`exports.handler = async (payload, { step }) => {
    for (const mib of payload) await step.run('s', () => 'x'.repeat(mib * 1024 * 1024)).catch(() => undefined);
    return 'done';
  }`);
  t.like(await large.jobWhen(await large.begin([2, 1.9]), 'succeeded', 'failed'), { status: 'succeeded' });
  const id = await large.begin([3, 1.1]);
  t.like(await large.jobWhen(id, 'succeeded', 'failed'), {
    status: 'failed',
    error: { code: 'step_results_too_large' },
  });
  const [run] = (await large.ask('GET', `/functions/${large.fn.id}/invocations?limit=1`)).body.invocations;
  t.like(run, { id, status: 'error' });
});

test('a step that runs when the time is over is tried again, and the time begins anew', async (t) => {
  const one = await scene(`exports.handler = async (payload, { step, db }) => {
    await db.query('create table if not exists tries (n int)');
    await step.run('quick', () => 1);
    return step.run('slow', async () => {
      await db.insert('tries', { n: 1 });
      const { n } = await db.queryOne('select count(*)::int as n from tries');
      if (n < 3) await new Promise(() => {});
      return n;
    });
  }`);
  await one.ask('PATCH', `/functions/${one.fn.id}`, {
    body: { timeout_ms: 1500, retry: { max_attempts: 3, base_ms: 10, backoff: 'fixed' } },
  });
  const { body } = await one.ask('POST', `/functions/${one.fn.id}/jobs`, { body: {} });
  const job = await one.jobWhen(body.jobs[0].job_id, 'succeeded', 'failed', 'dead');
  t.like(job, { status: 'succeeded', attempt: 1 }, JSON.stringify(job));
  t.like(job.steps, [
    { name: 'quick', attempt: 1 },
    { name: 'slow', attempt: 3, result: 3 },
  ]);
});

const versioned = (version: number): string => `exports.handler = async (payload, { step }) => {
  console.log('version ${version}');
  await step.run('before', () => 0);
  await step.sleep(${day});
  return ${version};
}`;

test('a run goes on with the version that it began with, and each stretch of it has its own log', async (t) => {
  const one = await scene(versioned(1));
  const id = await one.begin();
  await one.jobWhen(id, 'waiting');
  await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { code: versioned(2) } });
  const { db } = platform();
  // As if its time had come, and the clock was then set back: it sleeps once more.
  await db.query('update jobs set next_run_at = now() where id = $1', [id]);
  await until(async () => (await one.ask('GET', `/functions/${one.fn.id}/invocations`)).body.total === 2);
  t.like(await one.jobWhen(id, 'waiting'), { attempt: 1, waiting_reason: 'step_sleep' });
  await db.query(`update job_steps set due_at = now() where job_id = $1 and status = 'waiting'`, [id]);
  await db.query('update jobs set next_run_at = now() where id = $1', [id]);
  t.like(await one.jobWhen(id, 'succeeded', 'failed'), { result: { result: 1 }, attempt: 1 });
  const { invocations } = (await one.ask('GET', `/functions/${one.fn.id}/invocations`)).body as {
    invocations: { status: string; version: number; logs: { message: string }[] }[];
  };
  t.deepEqual(
    invocations.map(({ status, version, logs }) => [status, version, logs[0]?.message]),
    Array.from({ length: 3 }, () => ['success', 1, 'version 1']),
  );
});

test('a run that sleeps does not hold the place of its concurrency key', async (t) => {
  const one = await scene(sleeping);
  const { body } = await one.ask('POST', `/functions/${one.fn.id}/jobs`, {
    body: { payloads: [1, 2], concurrency_key: 'alone' },
  });
  for (const { job_id: id } of body.jobs) t.is((await one.jobWhen(id, 'waiting', 'failed')).status, 'waiting');
});
