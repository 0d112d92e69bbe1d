import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { useJobsApi } from './scene.ts';

const { platform, scene } = useJobsApi(test);

type Scene = Awaited<ReturnType<typeof scene>>;

const failing = `export const handler = (payload, sdk) => {
  if (sdk.attempt < payload.until) throw new Error('not yet');
  return sdk.attempt;
};`;

const enqueue = async ({ ask, fn }: Scene, body: object): Promise<string> =>
  (await ask('POST', `/functions/${fn.id}/jobs`, { body })).body.jobs[0].job_id;

test('a job shows its function, its payload to the last digit, and each attempt that was followed by another', async (t) => {
  const s = await scene(failing);
  const id = await enqueue(s, { payload: { until: 3 }, retry: { max_attempts: 5, base_ms: 1 } });
  await s.jobWhen(id, 'succeeded');
  const { body } = await s.ask('GET', `/jobs/${id}`);
  t.like(body, { function_id: s.fn.id, payload: { until: 3 }, attempt: 3 });
  const attempts = body['attempts'] as { attempt: number; error: object; ended_at: string }[];
  t.deepEqual(
    attempts.map(({ attempt, error }) => ({ attempt, error })),
    [1, 2].map((attempt) => ({ attempt, error: { code: 'error', message: 'not yet' } })),
  );
  const raw = String.raw`{"payload":{"n":12345678901234567890,"nul":"\u0000\ud800"}}`;
  const made = await platform().client.call('POST', `/projects/${s.project.id}/functions/${s.fn.id}/jobs`, {
    token: s.user.token,
    raw,
  });
  const exact = await s.ask('GET', `/jobs/${String(made.body.jobs[0].job_id)}`);
  t.true(exact.text.includes('12345678901234567890'), exact.text);
});

test('the results of steps are shown to the last digit, and a publishable key sees none of them', async (t) => {
  const s = await scene('export const handler = (payload, { step }) => step.run("one", () => JSON.rawJSON("1.50"))');
  const id = await enqueue(s, { payload: null });
  await s.jobWhen(id, 'succeeded');
  const long = `[9007199254740995${',1.50'.repeat(200_000)}]`;
  await platform().db.query('update job_steps set result = $2 where job_id = $1', [id, long]);
  const { text } = await s.ask('GET', `/jobs/${id}`);
  t.true(text.includes(`"result":${long}`));
  const { client } = platform();
  const secret = await client.call('GET', `/api/jobs/${id}`, { key: s.project.key });
  t.true(secret.text.includes(`"result":${long}`));
  const run = await client.call('POST', `/api/functions/${s.fn.slug}`, {
    key: s.project.publishableKey,
    headers: { prefer: 'respond-async' },
  });
  await s.jobWhen(run.body.job_id, 'succeeded');
  const open = await client.call('GET', `/api/jobs/${run.body.job_id}`, { key: s.project.publishableKey });
  t.like(open.body, { status: 'succeeded', steps: [] });
  t.true(open.text.includes('"result":1.5,"duration_ms":'), open.text);
  t.deepEqual(Object.keys(open.body.result), ['status', 'result', 'duration_ms', 'invocation_id']);
});

test('a payload that is long is not shown, and jobs of other kinds have none', async (t) => {
  const s = await scene('export const handler = () => 1');
  const id = await enqueue(s, { payload: 'x'.repeat(70_000) });
  t.like((await s.ask('GET', `/jobs/${id}`)).body, { payload: null, function_id: s.fn.id });
  const { body } = await s.ask('GET', '/jobs?type=project.provision');
  const provision = await s.ask('GET', `/jobs/${String(body.jobs[0].id)}`);
  t.like(provision.body, { payload: null, function_id: null, attempts: [] });
});

test('jobs are counted by status, those that ended within a time', async (t) => {
  const s = await scene(failing);
  await s.jobWhen(await enqueue(s, { payload: { until: 1 } }), 'succeeded');
  await s.jobWhen(await enqueue(s, { payload: { until: 9 } }), 'failed');
  await enqueue(s, { payload: {}, delay_ms: 3_600_000 });
  const counts = async (query = '') => (await s.ask('GET', `/jobs/counts?type=function.invoke${query}`)).body;
  t.deepEqual(await counts(), {
    counts: { queued: 1, running: 0, waiting: 0, succeeded: 1, failed: 1, dead: 0, cancelled: 0, expired: 0 },
    is_capped: false,
  });
  const later = await counts(`&since=${new Date(Date.now() + 60_000).toISOString()}`);
  t.like(later.counts, { queued: 1, succeeded: 0, failed: 0 });
  t.like((await s.ask('GET', '/jobs/counts?type=email.send')).body.counts, { queued: 0, succeeded: 0 });
  t.is((await s.ask('GET', '/jobs/counts?type=nothing')).status, 400);
  t.is((await s.ask('GET', '/jobs/counts?since=yesterday')).status, 400);
});

test('counts and details are for members of the project only', async (t) => {
  const s = await scene('export const handler = () => 1');
  const stranger = await platform().client.signUp();
  const viewer = await addMember(platform(), s.project.orgId, 'viewer');
  const at = `/projects/${s.project.id}/jobs/counts`;
  t.is((await platform().client.call('GET', at, { token: stranger.token })).status, 404);
  t.is((await platform().client.call('GET', at, { token: viewer.token })).status, 200);
});
