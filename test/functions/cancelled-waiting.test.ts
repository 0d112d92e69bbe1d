import test from 'ava';
import { runAnswer } from '#api/run-answer.ts';
import { newId } from '#lib/ids.ts';
import type { JobError } from '#queues/define.ts';
import { useJobsApi } from '#test/jobs/scene.ts';
import { until } from '#test/support/until.ts';

const { scene, platform, hold } = useJobsApi(test);

test.serial('who waits for a run that is cancelled before it began is told so', async (t) => {
  const one = await scene('exports.handler = () => 1');
  const { client } = platform();
  const publicCall = (key: string) => client.call('POST', `/api/functions/${one.fn.slug}`, { key, body: 1 });
  await hold('pause');
  t.teardown(() => hold('resume'));
  const waiting = Promise.all([
    one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } }),
    publicCall(one.project.key),
    publicCall(one.project.publishableKey),
  ]);
  const jobs = await until(async () => {
    const { body } = await one.ask('GET', '/jobs?status=queued&type=function.invoke');
    return body.jobs.length === 3 && (body.jobs as { readonly id: string }[]);
  });
  for (const { id } of jobs) t.is((await one.ask('POST', `/jobs/${id}/cancel`)).body.status, 'cancelled');
  const [member, secret, publishable] = await waiting;
  t.is(member.status, 200);
  t.like(member.body, { status: 'cancelled', result: null, duration_ms: 0, error: { name: 'AbortError' } });
  t.true(jobs.some(({ id }) => id === member.body.invocation_id));
  t.is(secret.status, 500);
  t.like(secret.body, { code: 'function_error', details: { name: 'AbortError' } });
  t.is(publishable.status, 500);
  t.like(publishable.body, { code: 'function_error', details: null });
});

test('a run of which only the job’s end is known has an answer when that is an end of runs', (t) => {
  const jobId = newId();
  const answer = (error: JobError) => runAnswer({ jobId, outcome: { status: 'failed', result: null, error } });
  for (const code of ['cancelled', 'timeout']) {
    t.like(JSON.parse(answer({ code, message: 'why' })), {
      status: code,
      result: null,
      invocation_id: jobId,
      error: { message: 'why', stack: '' },
    });
  }
  t.throws(() => answer({ code: 'not_found', message: 'gone' }), { code: 'not_found', message: 'gone' });
  for (const code of ['poison', 'toString']) t.throws(() => answer({ code, message: 'x' }), { code: 'internal' });
});
