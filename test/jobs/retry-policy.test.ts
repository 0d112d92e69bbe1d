import test from 'ava';
import { pauseAfter, retryPolicy } from '#queues/retry-policy.ts';
import { keepEventsOf } from '#test/support/subscriber.ts';
import { until } from '#test/support/until.ts';
import { useJobsApi } from './scene.ts';

const { platform, scene } = useJobsApi(test);

type Scene = Awaited<ReturnType<typeof scene>>;

const enqueue = async ({ ask, fn }: Scene, body: object): Promise<string> =>
  (await ask('POST', `/functions/${fn.id}/jobs`, { body })).body.jobs[0].job_id;

const invocationsOf = async ({ ask, fn }: Scene) =>
  (await ask('GET', `/functions/${fn.id}/invocations`)).body.invocations as {
    status: string;
    logs: { message: string }[];
  }[];

const failing = `export const handler = (payload, sdk) => {
  console.log('attempt', sdk.attempt);
  if (sdk.attempt < payload) throw new Error('not yet');
  return sdk.attempt;
};`;

test.serial('a function runs once without a policy, and as often as its own or the job’s policy says', async (t) => {
  const s = await scene(failing);
  const once = await s.jobWhen(await enqueue(s, { payload: 3 }), 'failed');
  t.is(once.attempt, 1);
  const retry = { max_attempts: 3, base_ms: 1 };
  t.is((await s.ask('PATCH', `/functions/${s.fn.id}`, { body: { retry } })).body.retry.backoff, 'exponential');
  const thrice = await s.jobWhen(await enqueue(s, { payload: 3 }), 'succeeded', 'dead', 'failed');
  t.deepEqual([thrice.status, thrice.attempt, thrice.result.result, thrice.error], ['succeeded', 3, 3, null]);
  t.is((await s.jobWhen(await enqueue(s, { payload: 3, retry: null }), 'failed')).attempt, 1);
  t.is((await s.jobWhen(await enqueue(s, { payload: 9, retry: { ...retry, max_attempts: 2 } }), 'dead')).attempt, 2);
  const { status, body } = await s.ask('POST', `/functions/${s.fn.id}/invoke`, { body: { payload: 3 } });
  t.deepEqual([status, body.status], [200, 'error'], 'somebody waits for a call, so it is not tried again');
});

test.serial('each attempt has a record with its own log, and a job counts once in the month', async (t) => {
  const s = await scene(failing);
  await s.jobWhen(await enqueue(s, { payload: 3, retry: { max_attempts: 5, base_ms: 1 } }), 'succeeded');
  const seen = (await invocationsOf(s)).map(
    ({ status, logs }) => `${status}: ${logs.map(({ message }) => message).join()}`,
  );
  t.deepEqual(seen.toSorted(), ['error: attempt 1', 'error: attempt 2', 'success: attempt 3']);
  const [used] = await platform().db.query<{ used: number }>(
    'select used from job_usage where project_id = $1 and type = $2',
    [s.project.id, 'function.invoke'],
  );
  t.is(Number(used?.used), 1);
});

test.serial('only the ends that a policy names are followed by another attempt', async (t) => {
  const s = await scene('export const handler = () => { throw new Error("no"); };');
  const retry = { max_attempts: 5, base_ms: 1, on: ['timeout', 'crashed'] };
  t.is((await s.jobWhen(await enqueue(s, { retry }), 'dead')).attempt, 1);
});

test.serial('a dead job is an event, and runs the function for failures once, with what it was given', async (t) => {
  const s = await scene('export const handler = () => { throw new Error("never"); };');
  const handler = await platform().client.deploy(s.user, s.project, 'export const handler = (payload) => payload;');
  await keepEventsOf(platform().db, s.project.id);
  const retry = { max_attempts: 2, base_ms: 1 };
  await s.ask('PATCH', `/functions/${s.fn.id}`, { body: { on_failure_function_id: handler.id } });
  const id = await enqueue(s, { payload: { order: '7"\\u0000' }, retry });
  await s.jobWhen(id, 'dead');
  const runs = await until(async () => {
    const { body } = await s.ask('GET', `/functions/${handler.id}/invocations`);
    return body.invocations.length > 0 && body.invocations;
  });
  t.is(runs.length, 1);
  t.is(runs[0].trigger, 'job');
  const { result } = await s.jobWhen(runs[0].id, 'succeeded');
  t.deepEqual(result.result, {
    job: {
      id,
      function: s.fn.slug,
      attempts: 2,
      error: { code: 'error', message: 'never' },
      payload: { order: '7"\\u0000' },
    },
  });
  const events = await platform().db.query<{ data: { job_id: string } }>(
    `select data from outbox_events where project_id = $1 and event = 'functions.dead'`,
    [s.project.id],
  );
  t.deepEqual(
    events.map(({ data }) => data.job_id),
    [id],
  );
});

test('an exponential pause doubles up to the longest, with jitter below it; a fixed one stays', (t) => {
  const policy = retryPolicy.parse({ max_attempts: 20, base_ms: 100, max_ms: 1000 });
  const pauses = (random: () => number) => [1, 2, 3, 4, 5, 19].map((attempt) => pauseAfter(policy, attempt, random));
  t.deepEqual(
    pauses(() => 0),
    [100, 200, 400, 800, 1000, 1000],
  );
  t.deepEqual(
    pauses(() => 1),
    [50, 100, 200, 400, 500, 500],
  );
  t.is(pauseAfter({ ...policy, backoff: 'fixed' }, 7), 100);
});
