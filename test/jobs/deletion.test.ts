import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { openPlatform } from '#domain/platform.ts';
import { memoryLog, opsToken } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type ProjectScene, endless, useJobsApi } from './scene.ts';

const { platform, scene } = useJobsApi(test, { settings: { PLINTH_FUNCTION_SLOTS: '8' } });

const jobsOf = ({ project }: ProjectScene) =>
  platform().db.query<{ id: string; status: string; error_code: string | null }>(
    `select id, status, error_code from jobs where project_id = $1 and type = 'function.invoke' order by id`,
    [project.id],
  );

const count = async (at: ProjectScene, status: string): Promise<number> =>
  (await jobsOf(at)).filter((job) => job.status === status).length;

/** The gate's jobs of one project. */
const atTheGate = async ({ project }: ProjectScene): Promise<{ waiting: number; running: number } | undefined> => {
  const path = '/ops/api/projects?type=function.invoke&limit=200';
  const { body } = await platform().client.call('GET', path, { token: opsToken });
  return body.projects.find((one: { project_id: string }) => one.project_id === project.id);
};

const pause = ({ project }: ProjectScene) =>
  platform().client.call('POST', `/ops/api/projects/${project.id}/pause`, { token: opsToken, body: {} });

// One after the other: all share eight places.
test.serial('a project that is deleted ends what waits and stops what runs, also when it was paused', async (t) => {
  const at = await scene(endless);
  for (let i = 0; i < 9; i += 1) await at.begin(i);
  await until(async () => (await count(at, 'running')) === 4);
  t.is((await pause(at)).status, 200);
  t.is((await at.ask('DELETE', '')).status, 204);
  t.is(await count(at, 'queued'), 0);
  await until(async () => (await count(at, 'running')) === 0);
  t.deepEqual(
    [...new Set((await jobsOf(at)).map((job) => `${job.status} ${job.error_code}`))],
    ['cancelled cancelled'],
  );
  const pauses = await platform().db.query('select from job_pauses where project_id = $1', [at.project.id]);
  t.deepEqual(pauses, []);
  await until(async () => {
    const left = await atTheGate(at);
    return left === undefined || left.waiting + left.running === 0;
  });
});

test.serial('a deletion that broke off is finished by the sweep, with the project’s jobs', async (t) => {
  const { config, db } = platform();
  const at = await scene(endless);
  const id = await at.begin();
  await at.jobWhen(id, 'running');
  await db.transaction(
    (tx) => tx.query(`update projects set status = 'deleting', deleted_at = now() where id = $1`, [at.project.id]),
    systemActor,
  );
  const own = await openPlatform(config, memoryLog().log);
  t.true((await own.projects.retireLeftOvers()).includes(at.project.id));
  await own.close();
  await until(async () => (await count(at, 'cancelled')) === 1);
});

test.serial('a project that is deleted while it is made leaves no database behind', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const headers = { prefer: 'respond-async' };
  const made = await client.call('POST', '/projects', {
    token: user.token,
    body: { name: 'Short', slug: 'short' },
    headers,
  });
  const [project] = await db.query<{ id: string; db_name: string }>(
    'select p.id, p.db_name from projects p join jobs j on j.project_id = p.id where j.id = $1',
    [made.body.job_id],
  );
  t.is((await client.call('DELETE', `/projects/${project?.id}`, { token: user.token })).status, 204);
  await until(async () => {
    const [job] = await db.query<{ status: string }>('select status from jobs where id = $1', [made.body.job_id]);
    return job?.status === 'succeeded';
  });
  const left = await db.query('select from pg_database where datname = $1', [project?.db_name]);
  t.deepEqual(left, []);
});

test.serial('a change of the plan changes at once how many may run', async (t) => {
  const at = await scene(endless);
  for (let i = 0; i < 8; i += 1) await at.begin(i);
  // One of its five places is kept for callers.
  await until(async () => (await count(at, 'running')) === 4);
  t.like(await atTheGate(at), { running: 4, waiting: 4 });
  t.is((await at.ask('PATCH', '', { body: { plan: 'pro' } })).status, 200);
  t.like(await atTheGate(at), { running: 8, waiting: 0 });
  t.is((await at.ask('DELETE', '')).status, 204);
});
