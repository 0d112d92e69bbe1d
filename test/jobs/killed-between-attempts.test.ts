import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { worker: false });

test('after a kill -9 of a worker during an attempt, and of one between attempts, the next attempts come, once each', async (t) => {
  t.timeout(longTestMs);
  const { client, config, db, startWorker } = platform();
  const first = startProcess('workers/server.ts', environmentOf(config));
  await first.ready;
  const user = await client.signUp();
  const project = await client.createProject(user);
  const code = `export const handler = (payload, sdk) => {
    if (sdk.attempt === 1) return new Promise(() => {});
    if (sdk.attempt === 2) throw new Error('not yet');
    return sdk.attempt;
  };`;
  const fn = await client.deploy(user, project, code, { timeout_ms: 60_000 });
  const retry = { max_attempts: 5, base_ms: 1500, backoff: 'fixed' };
  const { body } = await client.call('POST', `/projects/${project.id}/functions/${fn.id}/jobs`, {
    token: user.token,
    body: { retry, concurrency_key: 'alone' },
  });
  const [{ job_id: id }] = body.jobs;
  const row = async () =>
    (
      await db.query<{ status: string; attempt: number; result: string | null }>(
        'select status, attempt, result from jobs where id = $1',
        [id],
      )
    )[0];
  await until(async () => (await row())?.status === 'running');
  first.child.kill('SIGKILL');
  t.is(await first.end, 'SIGKILL');

  const second = startProcess('workers/server.ts', environmentOf(config));
  await second.ready;
  await until(async () => {
    const now = await row();
    return now?.attempt === 2 && now.status === 'queued';
  });
  second.child.kill('SIGKILL');
  t.is(await second.end, 'SIGKILL');
  await startWorker();
  const ended = await until(async () => {
    const now = await row();
    return now?.status === 'succeeded' && now;
  });
  t.is(ended.attempt, 3);
  const attempts = await db.query<{ status: string; attempt: number }>(
    'select status, attempt from invocations where job_id = $1 order by attempt',
    [id],
  );
  t.deepEqual(attempts, [
    { status: 'crashed', attempt: 1 },
    { status: 'error', attempt: 2 },
  ]);
  const [used] = await db.query<{ used: string }>(
    `select used from job_usage where project_id = $1 and type = 'function.invoke'`,
    [project.id],
  );
  t.is(Number(used?.used), 1);
});
