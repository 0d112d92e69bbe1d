import test from 'ava';
import { parsePrefer } from '#api/http/prefer.ts';
import type { TestFunction, TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { shared: true });

let user: TestUser;
let project: TestProject;
let hello: TestFunction;
let endless: TestFunction;

test.before('a project has a quick and an endless function', async () => {
  const { client } = platform();
  user = await client.signUp();
  project = await client.createProject(user);
  hello = await client.deploy(user, project, 'export const handler = () => "hello";');
  endless = await client.deploy(user, project, 'export const handler = () => new Promise(() => {});', {
    timeout_ms: 60_000,
  });
});

const invoke = (fn: TestFunction, prefer?: string) =>
  platform().client.call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, {
    token: user.token,
    body: { payload: null },
    headers: prefer === undefined ? {} : { prefer },
  });

test('the preferences of RFC 7240 are read as it asks', (t) => {
  const cases: [header: string, waitMs: number, applied: string][] = [
    ['', 30_000, ''],
    ['respond-async', 0, 'respond-async'],
    ['Respond-Async', 0, 'respond-async'],
    ['respond-async; reason=load', 0, 'respond-async'],
    ['wait=10', 10_000, 'wait=10'],
    ['wait = "10"', 10_000, 'wait=10'],
    ['wait=0', 0, 'wait=0'],
    ['wait=60', 60_000, 'wait=60'],
    ['wait=61', 60_000, 'wait=60'],
    [`wait=${'9'.repeat(400)}`, 60_000, 'wait=60'],
    ['respond-async, wait=5', 5000, 'respond-async, wait=5'],
    ['wait=5,respond-async', 5000, 'respond-async, wait=5'],
    ['wait=1, wait=2', 1000, 'wait=1'],
    ['return=minimal, wait=3', 3000, 'wait=3'],
    ...[
      'wait=-1',
      'wait=1.5',
      'wait=',
      'wait',
      'wait=x',
      'wait=1e3',
      ',,,',
      'respond-asynchronously',
      '\u00e4',
      'handling=lenient',
    ].map((header): [string, number, string] => [header, 30_000, '']),
  ];
  for (const [header, waitMs, applied] of cases) t.deepEqual(parsePrefer(header), { waitMs, applied }, header);
});

test('without a preference the answer is the result', async (t) => {
  const answer = await invoke(hello);
  t.is(answer.status, 200);
  t.is(answer.body.result, 'hello');
  t.is(answer.headers.get('preference-applied'), null);
  t.is(answer.headers.get('location'), null);
});

test('respond-async answers 202 with a Location that can be fetched', async (t) => {
  const answer = await invoke(hello, 'respond-async');
  t.is(answer.status, 202);
  t.deepEqual(Object.keys(answer.body), ['job_id', 'status']);
  t.is(answer.body.status, 'queued');
  t.is(answer.headers.get('preference-applied'), 'respond-async');
  t.is(answer.headers.get('location'), `/projects/${project.id}/jobs/${answer.body.job_id}`);
  const job = await platform().client.call('GET', answer.headers.get('location') ?? '', { token: user.token });
  t.is(job.status, 200);
  t.like(job.body, { id: answer.body.job_id, type: 'function.invoke' });
});

test('by API key the Location is one that the key can fetch', async (t) => {
  const { client } = platform();
  const headers = { prefer: 'respond-async' };
  const answer = await client.call('POST', `/api/functions/${hello.slug}`, { key: project.publishableKey, headers });
  t.is(answer.status, 202);
  t.is(answer.headers.get('location'), `/api/jobs/${answer.body.job_id}`);
  const job = await client.call('GET', `/api/jobs/${answer.body.job_id}`, { key: project.publishableKey });
  t.is(job.body.id, answer.body.job_id);
});

test('a wait that passes ends in the same 202, and the job goes on', async (t) => {
  const answer = await invoke(endless, 'wait=1');
  t.is(answer.status, 202);
  t.is(answer.headers.get('preference-applied'), 'wait=1');
  await until(async () => {
    const job = await platform().client.call('GET', answer.headers.get('location') ?? '', { token: user.token });
    return job.body.status === 'running';
  });
});

test('a wait that is long enough ends in the result', async (t) => {
  for (const prefer of ['wait=20', 'respond-async, wait=20', 'wait=10000']) {
    const answer = await invoke(hello, prefer);
    t.is(answer.status, 200, prefer);
    t.is(answer.body.result, 'hello');
    t.truthy(answer.headers.get('preference-applied'));
  }
});

test('what is not understood is ignored', async (t) => {
  for (const prefer of ['wait=soon', 'return=representation', ';;;,,,===', 'wait=-5']) {
    const answer = await invoke(hello, prefer);
    t.is(answer.status, 200, prefer);
    t.is(answer.headers.get('preference-applied'), null);
  }
});

test('an endpoint without a job passes preferences over', async (t) => {
  const answer = await platform().client.call('POST', '/team/orgs', {
    token: user.token,
    body: { org_name: 'No jobs here' },
    headers: { prefer: 'respond-async' },
  });
  t.is(answer.status, 201);
  t.is(answer.headers.get('preference-applied'), null);
});
