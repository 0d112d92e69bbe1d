import test from 'ava';
import { newId } from '#lib/ids.ts';
import { readyProject } from '#test/cron/ready-project.ts';
import { type SeededJob, seedJobs } from '#test/ops/scene.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';

// Without a worker: jobs stay as they are put.
const platform = usePlatform(test, { worker: false });

const scene = async (plan = 'free') => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await readyProject(platform(), user, plan);
  const ask = (method: string, path: string, body?: unknown, token = user.token) =>
    client.call(method, `/projects/${project.id}${path}`, { token, ...(body !== undefined && { body }) });
  const seed = (jobs: readonly Omit<SeededJob, 'projectId'>[]) =>
    seedJobs(
      db,
      jobs.map((job) => ({ ...job, projectId: project.id })),
    );
  return { user, project, ask, seed };
};

/** How many runs of functions a project has, by status. */
const statuses = async (projectId: string) =>
  platform().db.query(
    `select status, count(*)::int as n from jobs where project_id = $1 and type = 'function.invoke'
     group by status order by status`,
    [projectId],
  );

const failed = { status: 'failed', errorCode: 'error' } as const;

test('jobs are found by function, error, request, key and time', async (t) => {
  const { ask, seed } = await scene();
  const functionId = newId();
  const [byFunction, byTime, byKey] = await seed([
    { ...failed, functionId },
    { status: 'succeeded', secondsAgo: 7200 },
    { status: 'queued' },
  ]);
  await platform().db.query(`update jobs set concurrency_key = 'customer-7', concurrency = 1 where id = $1`, [byKey]);
  const found = async (query: string) => {
    const { status, body } = await ask('GET', `/jobs?${query}`);
    return status === 200 ? (body.jobs as { id: string }[]).map(({ id }) => id) : status;
  };
  t.deepEqual(await found(`function_id=${functionId}`), [byFunction]);
  t.deepEqual(await found('q=NO%20MARKUP'), [byFunction]);
  t.deepEqual(await found('q=%25'), []);
  t.deepEqual(await found('key=customer-7'), [byKey]);
  t.deepEqual(await found(`until=${new Date(Date.now() - 3_600_000).toISOString()}`), [byTime]);
  const [row] = await platform().db.query<{ request_id: string }>('select request_id from jobs where id = $1', [
    byTime,
  ]);
  t.deepEqual(await found(`request_id=${row?.request_id}`), [byTime]);
  t.is(await found('function_id=x'), 400);
});

test('jobs of a filter are retried, and cancelled, those of other functions and projects are left alone', async (t) => {
  const [mine, theirs] = [await scene('pro'), await scene()];
  const functionId = newId();
  await mine.seed([...Array.from({ length: 250 }, () => ({ ...failed, functionId })), failed]);
  await theirs.seed([{ ...failed, functionId }]);
  const filter = { function_id: functionId };
  const dry = await mine.ask('POST', '/jobs/retry', { filter, dry_run: true });
  t.deepEqual([dry.status, dry.body], [200, { matched: 250, changed: 0 }]);
  t.deepEqual((await mine.ask('POST', '/jobs/retry', { filter })).body, { matched: 250, changed: 250 });
  t.deepEqual(await statuses(mine.project.id), [
    { status: 'failed', n: 1 },
    { status: 'queued', n: 250 },
  ]);
  t.deepEqual(await statuses(theirs.project.id), [{ status: 'failed', n: 1 }]);
  t.deepEqual((await mine.ask('POST', '/jobs/cancel', { filter })).body, { matched: 250, changed: 250 });
  t.deepEqual(await statuses(mine.project.id), [
    { status: 'cancelled', n: 250 },
    { status: 'failed', n: 1 },
  ]);
});

test('retries of many jobs count in the month, as one does', async (t) => {
  const { ask, seed, project } = await scene();
  await seed([failed, failed]);
  const counted = async () => {
    const [row] = await platform().db.query<{ n: number }>(
      `select coalesce(sum(used), 0)::int as n from job_usage where project_id = $1`,
      [project.id],
    );
    return row?.n;
  };
  const before = await counted();
  await ask('POST', '/jobs/retry', { filter: { status: 'failed' } });
  t.is(await counted(), (before ?? 0) + 2);
});

test('a filter that names nothing is 400; viewers change nothing, and strangers find nothing', async (t) => {
  const { ask, project } = await scene();
  for (const action of ['retry', 'cancel']) {
    t.is((await ask('POST', `/jobs/${action}`, { filter: {} })).status, 400);
    t.is((await ask('POST', `/jobs/${action}`, {})).status, 400);
    t.is((await ask('POST', `/jobs/${action}`, { filter: { status: 'succeeded' } })).status, 400);
  }
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const stranger = await platform().client.signUp();
  const filter = { status: 'failed' };
  t.is((await ask('POST', '/jobs/retry', { filter }, viewer.token)).status, 403);
  t.is((await ask('GET', '/queue', undefined, viewer.token)).status, 200);
  t.is((await ask('POST', '/jobs/retry', { filter }, stranger.token)).status, 404);
  t.is((await ask('GET', '/queue', undefined, stranger.token)).status, 404);
});

test('the queue of a project says what waits, runs and fails, and when a new job might start', async (t) => {
  const { ask, seed } = await scene();
  t.like((await ask('GET', '/queue')).body, { waiting: 0, running: 0, oldest_wait_ms: null, failures: [] });
  t.is((await ask('GET', '/queue')).body.estimated_start_ms, 0);
  const functionId = newId();
  await seed([
    { status: 'queued', secondsAgo: 90 },
    { status: 'queued', secondsAgo: 30 },
    { status: 'running' },
    { ...failed, functionId },
    { ...failed, functionId },
    { status: 'succeeded' },
    { status: 'succeeded', secondsAgo: 1800 },
    { ...failed, functionId, secondsAgo: 7200 },
  ]);
  const { body } = await ask('GET', '/queue');
  t.like(body, { waiting: 2, running: 1, per_minute: 0.6, failures: [{ function_id: functionId, count: 2 }] });
  t.true(Number(body.oldest_wait_ms) >= 90_000);
  // Two wait, and three ended in five minutes.
  t.is(body.estimated_start_ms, 200_000);
});
