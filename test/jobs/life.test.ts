import test from 'ava';
import type { Answer, TestFunction, TestProject, TestUser } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { addMember, ownOrganization } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

interface Scene {
  readonly user: TestUser;
  readonly project: TestProject;
  readonly fn: TestFunction;
}

const scene = async (code: string): Promise<Scene> => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  return { user, project, fn: await client.deploy(user, project, code) };
};

const begin = async ({ user, project, fn }: Scene, payload: unknown): Promise<Answer> =>
  platform().client.call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, {
    token: user.token,
    body: { payload },
    headers: { prefer: 'respond-async' },
  });

const jobOf = ({ user, project }: Scene, id: string): Promise<Answer> =>
  platform().client.call('GET', `/projects/${project.id}/jobs/${id}`, { token: user.token });

const ended = async (at: Scene, id: string): Promise<Answer> => {
  const final = new Set(['succeeded', 'failed', 'dead', 'cancelled', 'expired']);
  return until(async () => {
    const answer = await jobOf(at, id);
    return final.has(answer.body.status) && answer;
  });
};

test('an accepted job can be followed to its end', async (t) => {
  const at = await scene('exports.handler = (x) => ({ doubled: x * 2 })');
  const accepted = await begin(at, 21);
  t.is(accepted.status, 202);
  t.is(accepted.headers.get('location'), `/projects/${at.project.id}/jobs/${accepted.body.job_id}`);
  t.like(accepted.body, { status: 'queued' });
  const { body } = await ended(at, accepted.body.job_id);
  t.deepEqual(Object.keys(body).toSorted(), [
    'attempt',
    'attempts',
    'created_at',
    'error',
    'finished_at',
    'function_id',
    'id',
    'max_attempts',
    'payload',
    'position',
    'priority',
    'progress',
    'request_id',
    'result',
    'started_at',
    'status',
    'steps',
    'type',
    'waiting_reason',
  ]);
  t.like(body, { id: accepted.body.job_id, type: 'function.invoke', status: 'succeeded', attempt: 1, error: null });
  t.like(body.result, { status: 'success', result: { doubled: 42 }, invocation_id: body.id });
  t.is(body.request_id, accepted.headers.get('x-request-id'));
  t.true(body.created_at <= body.started_at && body.started_at <= body.finished_at);
});

test('a job whose function fails is failed, and its result is the whole answer', async (t) => {
  const at = await scene('exports.handler = () => { throw new TypeError("no") }');
  const { body } = await ended(at, (await begin(at, null)).body.job_id);
  t.like(body, { status: 'failed', error: { code: 'error', message: 'no' } });
  t.like(body.result, { status: 'error', result: null, error: { name: 'TypeError', message: 'no' } });
});

test('a job is seen by members and the secret keys of its project, and by nobody else', async (t) => {
  const { client } = platform();
  const at = await scene('exports.handler = () => 1');
  const other = await scene('exports.handler = () => 1');
  const { job_id: id } = (await begin(at, null)).body;
  await ended(at, id);
  const viewer = await addMember(platform(), at.project.orgId, 'viewer');
  const read = (projectId: string, token: string) => client.call('GET', `/projects/${projectId}/jobs/${id}`, { token });
  t.is((await read(at.project.id, viewer.token)).status, 200);
  t.is((await read(at.project.id, other.user.token)).status, 404);
  t.is((await read(other.project.id, other.user.token)).status, 404);
  const byKey = (key: string) => client.call('GET', `/api/jobs/${id}`, { key });
  t.is((await byKey(at.project.key)).status, 200);
  t.is((await byKey(at.project.publishableKey)).status, 404);
  t.is((await byKey(other.project.key)).status, 404);
  for (const nonsense of ['nonsense', '00000000-0000-7000-8000-000000000000'])
    t.is((await client.call('GET', `/api/jobs/${nonsense}`, { key: at.project.key })).status, 404);
});

test('a public invoke that is not waited for is followed by its key', async (t) => {
  const { client } = platform();
  const { project, fn } = await scene('exports.handler = (x) => x');
  const accepted = await client.call('POST', `/api/functions/${fn.slug}`, {
    key: project.publishableKey,
    body: 'later',
    headers: { prefer: 'respond-async' },
  });
  t.is(accepted.status, 202);
  const location = accepted.headers.get('location') ?? '';
  t.is(location, `/api/jobs/${accepted.body.job_id}`);
  const job = await until(async () => {
    const answer = await client.call('GET', location, { key: project.publishableKey });
    return answer.body.status === 'succeeded' && answer;
  });
  t.is(job.body.result.result, 'later');
});

test('a job that takes longer than the caller waits is answered with 202 and not lost', async (t) => {
  const at = await scene('exports.handler = () => new Promise((resolve) => setTimeout(resolve, 1500, "late"))');
  const answer = await platform().client.call('POST', `/projects/${at.project.id}/functions/${at.fn.id}/invoke`, {
    token: at.user.token,
    body: { payload: null },
    headers: { prefer: 'wait=1' },
  });
  t.is(answer.status, 202);
  t.is(answer.headers.get('preference-applied'), 'wait=1');
  const job = await ended(at, answer.body.job_id);
  t.is(job.body.result.result, 'late');
});

test('numbers in results that JavaScript cannot hold come out as they are', async (t) => {
  const at = await scene(`exports.handler = () => [JSON.rawJSON('9007199254740993'), JSON.rawJSON('1.10')]`);
  const sync = await platform().client.invoke(at.user, at.project, at.fn, null);
  t.true(sync.text.includes('"result":[9007199254740993,1.10]'), sync.text);
  const bare = await platform().client.call('POST', `/api/functions/${at.fn.slug}`, { key: at.project.key });
  t.is(bare.text, '[9007199254740993,1.10]');
  const job = await ended(at, (await begin(at, null)).body.job_id);
  t.true(job.text.includes('"result":[9007199254740993,1.10]'), job.text);
});

test('a payload is handed on as it came, exact numbers included', async (t) => {
  const { client, db } = platform();
  const at = await scene('exports.handler = () => 1');
  const path = `/projects/${at.project.id}/functions/${at.fn.id}/invoke`;
  const bodies: Record<string, string> = {
    '{"payload":{"id":9007199254740993,"e":1e400}}': '{"id":9007199254740993,"e":1e400}',
    ' { "payload" : [1.10, -0] } ': '[1.10, -0]',
    '{"payload":1,"payload":9007199254740993}': '9007199254740993',
    '{"\\u0070ayload":9007199254740993}': '9007199254740993',
    '{"payload":"}"}': '"}"',
    '{"payload":null}': 'null',
  };
  for (const [raw, payload] of Object.entries(bodies)) {
    const answer = await client.call('POST', path, { token: at.user.token, raw });
    t.is(answer.status, 200, raw);
    const [row] = await db.query<{ data: string }>('select data from jobs where id = $1', [answer.body.invocation_id]);
    t.is(JSON.parse(row?.data ?? '{}').payload, payload, raw);
  }
});

test('NUL, lone surrogates and other odd text arrive and come back exactly', async (t) => {
  const at = await scene(
    'exports.handler = (text) => ({ units: [...Array(text.length).keys()].map((i) => text.charCodeAt(i)), text })',
  );
  const odd = '\0 \ud800 \udfff\ud83d 😀 \u2028 \ufeff \u007f " \\ __proto__';
  const units = Array.from({ length: odd.length }, (_, i) => odd.charCodeAt(i));
  const sync = await platform().client.invoke(at.user, at.project, at.fn, odd);
  t.deepEqual(sync.body.result, { units, text: odd });
  const bare = await platform().client.call('POST', `/api/functions/${at.fn.slug}`, { key: at.project.key, body: odd });
  t.deepEqual(bare.body, { units, text: odd });
  const job = await ended(at, (await begin(at, odd)).body.job_id);
  t.deepEqual(job.body.result.result, { units, text: odd });
});

test('payloads around and far above the size that travels by Redis arrive whole', async (t) => {
  const at = await scene('exports.handler = (text) => [text.length, text.at(0), text.at(-1)]');
  for (const length of [4000, 4095, 4097, 100_000, 5 * 1024 * 1024]) {
    const payload = `a${'x'.repeat(length - 2)}z`;
    const { body } = await platform().client.invoke(at.user, at.project, at.fn, payload);
    t.deepEqual(body.result, [length, 'a', 'z'], String(length));
  }
});

test('60 invokes at once each get their own answer', async (t) => {
  const at = await scene('exports.handler = async (x) => { await null; return x * 10 }');
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, i) => platform().client.invoke(at.user, at.project, at.fn, i)),
  );
  t.deepEqual(
    answers.map(({ body }) => body.result),
    Array.from({ length: 60 }, (_, i) => i * 10),
  );
});

test('a creation that keeps failing is tried three times, then dead, and its project failed', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const user = await client.signUp();
  const orgId = await ownOrganization(platform(), user);
  const name = `plinth_${orgId}_blocked`;
  await asAdmin('postgres', (admin) => admin.query(`create database "${name}"`));
  const answer = await client.call('POST', '/projects', { token: user.token, body: { name: 'B', slug: 'blocked' } });
  t.is(answer.status, 500);
  t.is(answer.body.code, 'provision_failed');
  t.false(answer.text.includes('belongs to no project'));
  const { project_id: id } = answer.body.details;
  const project = await client.call('GET', `/projects/${id}`, { token: user.token });
  t.is(project.body.status, 'failed');
  const [job] = await platform().db.query<{ id: string }>('select id from jobs where project_id = $1', [id]);
  const seen = await client.call('GET', `/projects/${id}/jobs/${job?.id}`, { token: user.token });
  t.like(seen.body, { status: 'dead', attempt: 3, max_attempts: 3, error: { code: 'internal' }, result: null });
  // Functions do not run in it.
  const deployed = await client.call('POST', `/projects/${id}/functions`, {
    token: user.token,
    body: { name: 'f', language: 'javascript', code: 'exports.handler = () => 1' },
  });
  const path = `/projects/${id}/functions/${deployed.body.id}/invoke`;
  const invoked = await client.call('POST', path, { token: user.token, body: { payload: 1 } });
  t.is(invoked.status, 409);
  t.is(invoked.body.code, 'project_not_ready');
  // And it can be deleted and made again.
  t.is((await client.call('DELETE', `/projects/${id}`, { token: user.token })).status, 204);
  await asAdmin('postgres', (admin) => admin.query(`drop database "${name}"`));
  await client.createProject(user, { slug: 'blocked' });
});
