import test from 'ava';
import { Client } from 'pg';
import { beginJobs } from '#domain/jobs/store.ts';
import { newId } from '#lib/ids.ts';
import { openWorkerRedis } from '#lib/redis.ts';
import { outcomesIn } from '#queues/replies.ts';
import { testEnv } from '#test/support/env.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { worker: false });

interface JobRow {
  readonly id: string;
  readonly status: string;
  readonly attempt: number;
}

const jobs = (projectId: string, type: string): Promise<JobRow[]> =>
  platform().db.query<JobRow>('select id, status, attempt from jobs where project_id = $1 and type = $2 order by id', [
    projectId,
    type,
  ]);

/** Holds the name of a database, so that a worker gets stuck in the middle of making it. */
const holdName = async (name: string): Promise<() => Promise<void>> => {
  const url = new URL(testEnv('DATABASE_URL'));
  url.pathname = '/postgres';
  const client = new Client({ connectionString: url.toString() });
  await client.connect();
  await client.query('select pg_advisory_lock(hashtextextended($1, 0))', [name]);
  return () => client.end();
};

test.serial(
  'after a kill -9 of a worker no function runs twice, and what can be repeated is finished by another',
  async (t) => {
    t.timeout(90_000);
    const { client, config, db, startWorker } = platform();
    const first = startProcess('workers/server.ts', environmentOf(config));
    await first.ready;
    const user = await client.signUp();
    const project = await client.createProject(user);
    // If it ran again it would time out, not crash.
    const endless = await client.deploy(user, project, 'exports.handler = () => new Promise(() => {})', {
      timeout_ms: 30_000,
    });
    const invoked = client.call('POST', `/projects/${project.id}/functions/${endless.id}/invoke`, {
      token: user.token,
      body: { payload: 1 },
      headers: { prefer: 'wait=60' },
    });
    await until(async () => (await jobs(project.id, 'function.invoke'))[0]?.status === 'running');
    const release = await holdName(`plinth_${project.orgId}_cut_short`);
    const created = client.call('POST', '/projects', {
      token: user.token,
      body: { name: 'Cut short', slug: 'cut_short' },
      headers: { prefer: 'wait=60' },
    });
    const second = await until(
      async () => (await db.query<{ id: string }>(`select id from projects where slug = 'cut_short'`))[0],
    );
    await until(async () => (await jobs(second.id, 'project.provision'))[0]?.status === 'running');
    first.child.kill('SIGKILL');
    t.is(await first.end, 'SIGKILL');
    await release();
    await startWorker();

    const answer = await invoked;
    t.is(answer.status, 200);
    t.like(answer.body, { status: 'crashed', result: null });
    const [run] = await jobs(project.id, 'function.invoke');
    t.is(answer.body.invocation_id, run?.id);
    const job = await until(async () => {
      const got = await client.call('GET', `/projects/${project.id}/jobs/${run?.id}`, { token: user.token });
      return got.body.status === 'failed' && got;
    });
    t.like(job.body, { attempt: 1, error: { code: 'crashed' } });
    t.is(job.body.result.status, 'crashed');

    t.like(await created, { status: 201 });
    t.like((await created).body, { status: 'active', slug: 'cut_short' });
    t.like((await jobs(second.id, 'project.provision'))[0], { attempt: 2 });
  },
);

test.serial(
  'an outcome that was published but not recorded is recorded by the next worker, without a second run',
  async (t) => {
    const own = platform();
    const { client, config, db } = own;
    const user = await client.signUp();
    const headers = { prefer: 'respond-async' };
    const accepted = await client.call('POST', '/projects', { token: user.token, body: { name: 'Told' }, headers });
    const { job_id: id } = accepted.body;
    // As a worker that died right after it had told the end.
    const redis = openWorkerRedis(config.REDIS_URL, memoryLog().log);
    await beginJobs(db, [{ id, runId: newId(), at: new Date(), withData: false }]);
    const outcome = { status: 'failed', result: null, error: { code: 'internal', message: 'left behind' } } as const;
    await outcomesIn(redis, config.PLINTH_REDIS_PREFIX).publish(id, outcome, null);
    // Who asks meanwhile is told what Postgres does not know yet.
    const location = accepted.headers.get('location') ?? '';
    t.like((await client.call('GET', location, { token: user.token })).body, { status: 'failed' });
    await own.startWorker();
    await until(async () => (await db.query(`select from jobs where id = $1 and status = 'failed'`, [id])).length > 0);
    const [row] = await db.query<{ attempt: number; error_message: string }>(
      'select attempt, error_message from jobs where id = $1',
      [id],
    );
    t.deepEqual(row, { attempt: 1, error_message: 'left behind' });
    const [project] = await db.query<{ status: string }>(`select status from projects where name = 'Told'`);
    t.is(project?.status, 'creating');
    redis.disconnect();
  },
);
