import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import type { TestFunction, TestProject, TestUser } from '#test/support/client.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { seedJobs, seedProjects } from './scene.ts';

const platform = usePlatform(test);

const ask = (method: string, path: string, body?: unknown) =>
  platform().client.call(method, `/ops/api${path}`, { token: opsToken, ...(body !== undefined && { body }) });

let owner: TestUser;
let project: TestProject;
let fn: TestFunction;

test.before('a project has a function', async () => {
  const { client } = platform();
  owner = await client.signUp();
  project = await client.createProject(owner);
  fn = await client.deploy(owner, project, 'export const handler = () => 17;');
});

const invokeLater = async (): Promise<string> => {
  const path = `/projects/${project.id}/functions/${fn.id}/invoke`;
  const options = { token: owner.token, body: { payload: 1 }, headers: { prefer: 'respond-async' } };
  return String((await platform().client.call('POST', path, options)).body.job_id);
};

const statusOf = async (jobId: string): Promise<string> => (await ask('GET', `/jobs/${jobId}`)).body.status;

interface ProjectRow {
  readonly project_id: string;
  readonly type: string;
  readonly waiting: number;
  readonly limit: number | null;
}

const rowOf = async (projectId: string): Promise<ProjectRow | undefined> => {
  const { body } = await ask('GET', '/projects?type=function.invoke&limit=200');
  return (body.projects as ProjectRow[]).find((row) => row.project_id === projectId);
};

test.serial('a paused project waits with all its types and is listed, and goes on when resumed', async (t) => {
  const paused = await ask('POST', `/projects/${project.id}/pause`, {});
  t.deepEqual(paused.body, { project_id: project.id, paused: true, paused_types: [] });
  const jobId = await invokeLater();
  await until(async () => (await rowOf(project.id))?.waiting === 1);
  t.like(await rowOf(project.id), { paused: true, project_paused: true, running: 0, limit: 5, ref: project.ref });
  t.is(await statusOf(jobId), 'queued');
  const resumed = await ask('POST', `/projects/${project.id}/resume`, {});
  t.deepEqual(resumed.body, { project_id: project.id, paused: false, paused_types: [] });
  await until(async () => (await statusOf(jobId)) === 'succeeded');
});

test.serial('one type of a project is paused by itself; resuming without a type resumes all', async (t) => {
  const type = 'function.invoke';
  const paused = await ask('POST', `/projects/${project.id}/pause`, { type });
  t.deepEqual(paused.body, { project_id: project.id, paused: false, paused_types: [type] });
  t.like(await rowOf(project.id), { paused: true, project_paused: false });
  await ask('POST', `/projects/${project.id}/pause`, {});
  // Twice is once.
  await ask('POST', `/projects/${project.id}/pause`, {});
  const all = await ask('POST', `/projects/${project.id}/resume`, {});
  t.deepEqual(all.body, { project_id: project.id, paused: false, paused_types: [] });
});

test.serial('a limit takes effect at once, and two nulls give the plan’s back', async (t) => {
  const path = `/projects/${project.id}/limits`;
  const set = { type: 'function.invoke', running: 0, waiting: 1 };
  t.deepEqual((await ask('PUT', path, set)).body, { project_id: project.id, ...set });
  const jobId = await invokeLater();
  await until(async () => (await rowOf(project.id))?.waiting === 1);
  t.like(await rowOf(project.id), { limit: 0, waiting_limit: 1, own_limit: 0, own_waiting_limit: 1 });
  const { status, body } = await platform().client.invoke(owner, project, fn, 1);
  t.is(status, 429);
  t.is(body.code, 'queue_full');
  await ask('PUT', path, { ...set, running: null, waiting: null });
  await until(async () => (await statusOf(jobId)) === 'succeeded');
  t.is(await rowOf(project.id).then((row) => row?.limit ?? 5), 5);
});

test.serial('an organization’s limit is set and given back, and stands in its audit log', async (t) => {
  const { db } = platform();
  const [{ org_id: orgId } = { org_id: '' }] = await db.query<{ org_id: string }>(
    'select org_id from projects where id = $1',
    [project.id],
  );
  const path = `/organizations/${orgId}/limits`;
  const set = { type: 'function.invoke', running: 3 };
  t.deepEqual((await ask('PUT', path, set)).body, { org_id: orgId, ...set });
  t.is((await ask('PUT', path, { ...set, running: 0 })).status, 400);
  t.is((await ask('PUT', '/organizations/a0000000000000000/limits', set)).status, 404);
  t.deepEqual((await ask('PUT', path, { ...set, running: null })).body, { org_id: orgId, ...set, running: null });
  const rows = await db.query<{ action: string }>(
    `select action from audit_entries where org_id = $1 and target_type = 'organization_limit'`,
    [orgId],
  );
  const actions = rows.map(({ action }) => action);
  t.deepEqual(actions.toSorted(), ['organization_limit.create', 'organization_limit.delete']);
});

test.serial('what operators did stands in the project’s audit log', async (t) => {
  const rows = await platform().db.query<{ action: string }>(
    `select action from audit_entries where project_id = $1 and target_type in ('job_pause', 'job_limit')`,
    [project.id],
  );
  const actions = new Set(rows.map(({ action }) => action));
  t.deepEqual(actions, new Set(['job_pause.create', 'job_pause.delete', 'job_limit.create', 'job_limit.delete']));
});

test('a project that is paused and has nothing to do is listed nevertheless', async (t) => {
  const [idle] = await seedProjects(platform().db, 1);
  await ask('POST', `/projects/${idle?.id}/pause`, {});
  t.like(await rowOf(idle?.id ?? ''), { paused: true, waiting: 0, running: 0, name: idle?.name });
});

test('a project is found by its name with the jobs that a pause would concern', async (t) => {
  const { db } = platform();
  const [busy, gone] = await seedProjects(db, 2);
  const { id = '', ref, name } = busy ?? {};
  const running = { projectId: id, status: 'running' };
  const queued = { projectId: id, status: 'queued' };
  // Its jobs must stay as they are: nothing of this project is handed to workers.
  await ask('POST', `/projects/${id}/pause`, {});
  await seedJobs(db, [
    queued,
    queued,
    { ...queued, type: 'cron.fire' },
    running,
    { projectId: id, status: 'succeeded' },
  ]);
  const found = async (query: string) => (await ask('GET', `/projects/search?${query}`)).body.projects;
  for (const named of [id, ref]) {
    t.like(await found(`project=${named}`), [{ project_id: id, ref, name, waiting: 3, running: 1 }]);
  }
  t.like(await found(`project=${ref}&type=cron.fire`), [{ waiting: 1, running: 0 }]);
  await db.transaction(
    (tx) => tx.query('update projects set deleted_at = now() where id = $1', [gone?.id]),
    systemActor,
  );
  t.deepEqual(await found(`project=${gone?.ref}`), []);
  t.deepEqual(await found('project=nobody'), []);
  t.is((await ask('GET', '/projects/search')).status, 400);
});

test('bad input is refused', async (t) => {
  const nobody = crypto.randomUUID();
  const limits = (body: unknown, id = project.id) => ask('PUT', `/projects/${id}/limits`, body);
  t.is((await limits({ type: 'function.invoke', running: -1, waiting: null })).status, 400);
  t.is((await limits({ type: 'function.invoke', running: 1.5, waiting: null })).status, 400);
  t.is((await limits({ type: 'function.invoke', running: 1 })).status, 400);
  t.is((await limits({ type: 'nonsense', running: 1, waiting: 1 })).status, 400);
  t.is((await limits({ type: 'function.invoke', running: 1, waiting: 1 }, nobody)).status, 404);
  t.is((await ask('POST', `/projects/${nobody}/pause`, {})).status, 404);
  t.is((await ask('POST', '/projects/nonsense/resume', {})).status, 404);
  t.is((await ask('POST', `/projects/${project.id}/pause`, { type: 'nonsense' })).status, 400);
  t.is((await ask('GET', '/projects?limit=201')).status, 400);
});

test('upcoming fires are a list, bounded', async (t) => {
  const { status, body } = await ask('GET', '/cron/upcoming?limit=10');
  t.is(status, 200);
  t.deepEqual(body.fires, []);
  t.is((await ask('GET', '/cron/upcoming?limit=0')).status, 400);
});
