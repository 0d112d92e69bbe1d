import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { endless, useJobsApi } from './scene.ts';

const { platform, scene, hold } = useJobsApi(test, { settings: { PLINTH_FUNCTION_SLOTS: '1' } });

// Alone: the functions of everybody wait meanwhile.
test.serial('a waiting job is cancelled with 200, and never runs', async (t) => {
  const at = await scene('exports.handler = () => 1');
  await hold('pause');
  const id = await at.begin();
  const answer = await at.ask('POST', `/jobs/${id}/cancel`);
  t.is(answer.status, 200);
  t.like(answer.body, { id, status: 'cancelled', attempt: 0, position: null, waiting_reason: null, started_at: null });
  t.like(answer.body.error, { code: 'cancelled' });
  await hold('resume');
  const after = await at.begin();
  await at.jobWhen(after, 'succeeded');
  t.like((await at.ask('GET', `/jobs/${id}`)).body, { status: 'cancelled', attempt: 0 });
});

for (const [what, code] of Object.entries({
  'waits for nothing': endless,
  'turns in a loop': 'exports.handler = () => { for (;;) {} }',
})) {
  test.serial(`a function that ${what} is stopped when its job is cancelled, and its place is free`, async (t) => {
    const at = await scene(code);
    const quick = await scene('exports.handler = () => "quick"');
    const id = await at.begin();
    await at.jobWhen(id, 'running');
    const answer = await at.ask('POST', `/jobs/${id}/cancel`);
    t.is(answer.status, 200);
    t.like(answer.body, { id, status: 'cancelled', attempt: 1 });
    // There is one place for all: had the run gone on, this one would wait for its time-out.
    const { body } = await platform().client.invoke(quick.user, quick.project, quick.fn, null);
    t.is(body.result, 'quick');
  });
}

test.serial('what has ended is not cancelled: 409', async (t) => {
  const at = await scene('exports.handler = () => 1');
  const id = await at.begin();
  await at.jobWhen(id, 'succeeded');
  const answer = await at.ask('POST', `/jobs/${id}/cancel`);
  t.is(answer.status, 409);
  t.is(answer.body.code, 'conflict');
});

test.serial('a job that failed is run again with 202 under its id; one that succeeded is not', async (t) => {
  const at = await scene('exports.handler = (good) => { if (!good) throw new Error("bad"); }');
  const id = await at.begin(false);
  await at.jobWhen(id, 'failed');
  const again = await at.ask('POST', `/jobs/${id}/retry`);
  t.is(again.status, 202);
  t.like(again.body, { id, status: 'queued', attempt: 0, result: null, error: null, finished_at: null });
  t.like(await at.jobWhen(id, 'failed'), { attempt: 1 });
  const good = await at.begin(true);
  await at.jobWhen(good, 'succeeded');
  const refused = await at.ask('POST', `/jobs/${good}/retry`);
  t.is(refused.status, 409);
  t.is(refused.body.code, 'conflict');
});

test.serial('a retry that comes twice with one Idempotency-Key is one retry', async (t) => {
  const at = await scene('exports.handler = () => { throw new Error("bad"); }');
  const id = await at.begin();
  await at.jobWhen(id, 'failed');
  const headers = { 'idempotency-key': 'again-please' };
  const first = await at.ask('POST', `/jobs/${id}/retry`, { headers });
  const second = await at.ask('POST', `/jobs/${id}/retry`, { headers });
  t.deepEqual([first.status, second.status], [202, 202]);
  t.is(second.headers.get('idempotent-replayed'), 'true');
  t.is(second.text, first.text);
  await at.jobWhen(id, 'failed');
});

test.serial('the jobs of a project that is not active are not run again, but for its creation', async (t) => {
  const at = await scene('exports.handler = () => { throw new Error("bad"); }');
  const { db } = platform();
  const id = await at.begin();
  await at.jobWhen(id, 'failed');
  const { body: jobs } = await at.ask('GET', '/jobs?type=project.provision');
  const creation = jobs.jobs[0].id;
  await db.transaction((tx) => tx.query(`update projects set status = 'failed' where id = $1`, [at.project.id]), {
    'plinth.actor': '{"type":"system"}',
  });
  await db.query(`update jobs set status = 'dead' where id = $1`, [creation]);
  const refused = await at.ask('POST', `/jobs/${id}/retry`);
  t.is(refused.status, 409);
  t.is(refused.body.code, 'project_not_ready');
  t.like((await at.ask('GET', `/jobs/${id}`)).body, { status: 'failed', attempt: 1 }, 'it is as it was');
  t.is((await at.ask('POST', `/jobs/${creation}/retry`)).status, 202);
  await at.jobWhen(creation, 'succeeded');
  t.is((await at.ask('GET', '')).body.status, 'active');
});

test.serial('viewers look, developers cancel and run again, keys and strangers do neither', async (t) => {
  const at = await scene('exports.handler = () => { throw new Error("bad"); }');
  const { client } = platform();
  const viewer = await addMember(platform(), at.project.orgId, 'viewer');
  const developer = await addMember(platform(), at.project.orgId, 'developer');
  const id = await at.begin();
  await at.jobWhen(id, 'failed');
  const as = async (token: string, method: string, path: string): Promise<number> =>
    (await client.call(method, `/projects/${at.project.id}/jobs${path}`, { token })).status;
  t.is(await as(viewer.token, 'GET', ''), 200);
  t.is(await as(viewer.token, 'POST', `/${id}/retry`), 403);
  t.is(await as(viewer.token, 'POST', `/${id}/cancel`), 403);
  t.is(await as(developer.token, 'POST', `/${id}/retry`), 202);
  t.is(await as(at.project.key, 'POST', `/${id}/retry`), 401);
  t.is(await as((await client.signUp()).token, 'POST', `/${id}/cancel`), 404);
  await at.jobWhen(id, 'failed');
});
