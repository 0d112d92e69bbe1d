import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';
import { addMember } from '#test/support/members.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test);

const deployed = 'exports.handler = () => "deployed"';
const draft = 'exports.handler = (x, sdk) => { sdk.log("info", "tried"); return { x, kind: sdk.caller.kind }; }';

const setUp = async () => {
  const one = await scene(deployed);
  const path = `/functions/${one.fn.id}`;
  const run = (body: object, headers = {}) => one.ask('POST', `${path}/drafts`, { body, headers });
  return { ...one, path, run };
};

test('a draft runs with the exact payload, and what is deployed stays as it was', async (t) => {
  const { ask, path, run } = await setUp();
  const answer = await run({ code: draft, payload: '{"n":12345678901234567890}' });
  t.is(answer.status, 200);
  t.is(answer.body.status, 'success');
  t.like(answer.body.result, { kind: 'dashboard' });
  const id = String(answer.body.invocation_id);
  const [job] = await platform().db.query<{ data: string }>('select data from jobs where id = $1', [id]);
  t.is((JSON.parse(job?.data ?? '') as { payload: string }).payload, '{"n":12345678901234567890}');
  const fn = await ask('GET', path);
  t.like(fn.body, { version: 1, code: deployed });
  t.is((await ask('POST', `${path}/invoke`, { body: { payload: null } })).body.result, 'deployed');
  const record = await until(async () => {
    const { status, body } = await ask('GET', `${path}/invocations/${id}`);
    return status === 200 && body.status === 'success' && body;
  });
  t.true(Number(record['version']) < 0);
  t.like(record, { trigger: 'dashboard', logs: [{ message: 'tried' }] });
});

test('a draft of several files, and one with another handler, run too', async (t) => {
  const { run } = await setUp();
  const files = {
    'index.ts': `import { two } from './two.ts'; export const handler = () => two;`,
    'two.ts': 'export const two: number = 2;',
  };
  t.like((await run({ files })).body, { status: 'success', result: 2 });
  const other = { code: 'export const other = () => "other"', entry_point: 'other' };
  t.like((await run(other)).body, { status: 'success', result: 'other' });
});

test('a draft with the variables of its function ends as user code ends', async (t) => {
  const { ask, path, run } = await setUp();
  await ask('PATCH', path, { body: { env_vars: { GREETING: 'hello' } } });
  t.is((await run({ code: 'exports.handler = (x, sdk) => sdk.env.GREETING' })).body.result, 'hello');
  const failed = await run({ code: 'exports.handler = () => { throw new Error("no") }' });
  t.like(failed.body, { status: 'error', error: { message: 'no' } });
});

test('what is no code, no JSON or no function of the project is refused, and leaves nothing', async (t) => {
  const { ask, path, run, project } = await setUp();
  for (const body of [{}, { code: 'exports.handler = (' }, { code: draft, payload: '{' }, { code: draft, files: {} }])
    t.is((await run(body)).status, 400, JSON.stringify(body));
  t.is((await ask('POST', `/functions/${project.id}/drafts`, { body: { code: draft } })).status, 404);
  const other = await scene(deployed);
  t.is((await other.ask('POST', `${path}/drafts`, { body: { code: draft } })).status, 404);
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const at = `/projects/${project.id}${path}/drafts`;
  const asViewer = await platform().client.call('POST', at, { token: viewer.token, body: { code: draft } });
  t.is(asViewer.status, 403);
  const rows = await platform().db.query('select 1 from function_drafts where project_id = $1', [project.id]);
  t.is(rows.length, 0);
});

test('only the latest drafts are kept, and they go with their function; a rerun needs one that is kept', async (t) => {
  const { ask, path, run, project } = await setUp();
  const first = await run({ code: draft });
  for (let count = 0; count < 11; count += 1) await run({ code: draft });
  const count = async () =>
    (await platform().db.query('select 1 from function_drafts where project_id = $1', [project.id])).length;
  t.is(await count(), 10);
  const again = `${path}/invocations/${String(first.body.invocation_id)}/rerun`;
  await until(async () => (await ask('POST', `${again}?version=current`)).status === 200);
  t.is((await ask('POST', `${again}?version=original`)).status, 409);
  t.is((await ask('DELETE', path)).status, 204);
  t.is(await count(), 0);
});
