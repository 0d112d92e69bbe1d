import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { worker: false });

/** The second step goes on once the table `go` is there. */
const code = `exports.handler = async (payload, { step, db }) => {
  const note = (name) => db.insert('effects', { name });
  await step.run('first', () => note('first'));
  await step.run('second', async () => {
    await note('second');
    const isThere = async () => (await db.queryOne("select to_regclass('public.go') is not null as go")).go;
    while (!(await isThere())) await new Promise((resolve) => setTimeout(resolve, 20));
  });
  await step.sleep(10);
  await step.run('third', () => note('third'));
  return (await db.query('select name, count(*)::int as count from effects group by 1 order by 1'));
}`;

/** Has its first step once the table `go` is there. */
const lateCode = `exports.handler = async (payload, { step, db }) => {
  const note = (name) => db.insert('effects', { name });
  const isThere = async () => (await db.queryOne("select to_regclass('public.go') is not null as go")).go;
  await note('begun');
  while (!(await isThere())) await new Promise((resolve) => setTimeout(resolve, 20));
  await step.run('only', () => note('only'));
  return (await db.query('select name, count(*)::int as count from effects group by 1 order by 1'));
}`;

/** @param effects how many of them there are before it is answered */
const startedRun = async (run = code, effectsBefore = 2) => {
  const { client, config, db } = platform();
  const worker = startProcess('workers/server.ts', environmentOf(config));
  await worker.ready;
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, run, { timeout_ms: 60_000 });
  const sql = await client.deploy(user, project, 'exports.handler = (sql, { db }) => db.query(sql);');
  await client.invoke(user, project, sql, 'create table effects (name text)');
  const headers = { prefer: 'respond-async' };
  const path = `/projects/${project.id}/functions/${fn.id}/invoke`;
  const { body } = await client.call('POST', path, { token: user.token, body: { payload: null }, headers });
  const id = String(body.job_id);
  const go = () => client.invoke(user, project, sql, 'create table go ()');
  const effects = async () => (await client.invoke(user, project, sql, 'select name from effects')).body.result;
  const job = async () => (await client.call('GET', `/projects/${project.id}/jobs/${id}`, { token: user.token })).body;
  await until(async () => (await effects()).length === effectsBefore);
  return { worker, id, go, job, db };
};

test.serial(
  'a run whose worker is killed goes on at the first step without a result, though it is not to be retried',
  async (t) => {
    t.timeout(longTestMs);
    const { worker, go, job } = await startedRun();
    worker.child.kill('SIGKILL');
    t.is(await worker.end, 'SIGKILL');
    const stop = await platform().startWorker();
    await go();
    const ended = await until(async () => {
      const now = await job();
      return ['succeeded', 'failed', 'dead'].includes(now.status) && now;
    });
    t.is(ended.status, 'succeeded', JSON.stringify(ended));
    t.deepEqual(ended.result.result, [
      { name: 'first', count: 1 },
      { name: 'second', count: 2 },
      { name: 'third', count: 1 },
    ]);
    t.deepEqual([ended.attempt, ended.steps.length], [1, 4]);
    await stop();
  },
);

for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
  test.serial(
    `a run goes on whose worker gets ${signal} before the first step that any run of its function has`,
    async (t) => {
      t.timeout(longTestMs);
      const { worker, go, job } = await startedRun(lateCode, 1);
      worker.child.kill(signal);
      await worker.end;
      const stop = await platform().startWorker();
      await go();
      const ended = await until(async () => {
        const now = await job();
        return ['succeeded', 'failed', 'dead'].includes(now.status) && now;
      });
      t.is(ended.status, 'succeeded', JSON.stringify(ended));
      t.deepEqual(ended.result.result, [
        { name: 'begun', count: 2 },
        { name: 'only', count: 1 },
      ]);
      await stop();
    },
  );
}

test.serial('a worker that is stopped hands its runs over in the middle of a step', async (t) => {
  t.timeout(longTestMs);
  const { worker, go, job } = await startedRun();
  worker.child.kill('SIGTERM');
  await worker.end;
  const stop = await platform().startWorker();
  await go();
  const ended = await until(async () => {
    const now = await job();
    return ['succeeded', 'failed', 'dead'].includes(now.status) && now;
  });
  t.is(ended.status, 'succeeded', JSON.stringify(ended));
  t.deepEqual(ended.result.result[0], { name: 'first', count: 1 });
  await stop();
});

test.serial('a step that takes every worker down is given up after three', async (t) => {
  t.timeout(longTestMs);
  const { worker, id, db, job } = await startedRun();
  await db.query('update jobs set crashes = 2 where id = $1', [id]);
  worker.child.kill('SIGKILL');
  await worker.end;
  await platform().startWorker();
  const ended = await until(async () => {
    const now = await job();
    return ['succeeded', 'failed', 'dead'].includes(now.status) && now;
  });
  t.deepEqual([ended.status, ended.error.code], ['dead', 'poison']);
});
