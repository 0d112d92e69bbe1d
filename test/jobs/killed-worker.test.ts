import test from 'ava';
import { Client } from 'pg';
import { testEnv } from '#test/support/env.ts';
import { usePlatform } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
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

test('after a kill -9 of a worker no function runs twice, and what can be repeated is finished by another', async (t) => {
  t.timeout(longTestMs);
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
  await until(async () => (await jobs(project.id, 'function.invoke'))[0]?.status === 'failed');
  const job = await client.call('GET', `/projects/${project.id}/jobs/${run?.id}`, { token: user.token });
  t.like(job.body, { attempt: 1, error: { code: 'crashed' } });
  t.is(job.body.result.status, 'crashed');

  t.like(await created, { status: 201 });
  t.like((await created).body, { status: 'active', slug: 'cut_short' });
  t.like((await jobs(second.id, 'project.provision'))[0], { attempt: 2 });
});
