import { randomBytes } from 'node:crypto';
import test from 'ava';
import { type TestPlatform, startPlatform, usePlatform } from '#test/support/platform.ts';
import { createClient } from '#test/support/client.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

const settingsOf = ({ config }: TestPlatform) => environmentOf(config);

const withoutStack = (stderr: string): boolean => !/^\s+at /m.test(stderr);

for (const script of ['api/server.ts', 'workers/server.ts']) {
  test(`${script} without settings ends with code 78 and names each one that is missing`, async (t) => {
    const process = startProcess(script, { PORT: 'many' });
    t.is(await process.end, 78);
    for (const line of ['DATABASE_URL is not set', 'REDIS_URL is not set', 'PLINTH_SECRET_KEYS is not set', 'PORT: '])
      t.true(process.stderr().includes(line), process.stderr());
    t.true(withoutStack(process.stderr()));
  });

  test(`${script} with a key ring that does not fit the database ends with code 78 and says so`, async (t) => {
    const other = { PLINTH_SECRET_KEYS: `1:${randomBytes(32).toString('base64')}` };
    const process = startProcess(script, { ...settingsOf(platform()), ...other });
    t.is(await process.end, 78);
    t.regex(process.stderr(), /PLINTH_SECRET_KEYS does not fit this database/);
    t.true(withoutStack(process.stderr()));
  });

  test(`${script} with a key ring that is none ends with code 78 and does not show it`, async (t) => {
    const process = startProcess(script, { ...settingsOf(platform()), PLINTH_SECRET_KEYS: '1:c2VjcmV0' });
    t.is(await process.end, 78);
    t.regex(process.stderr(), /PLINTH_SECRET_KEYS: must be/);
    t.false(process.stderr().includes('c2VjcmV0'));
  });

  test(`${script} says which of its PLINTH_ settings do not exist`, async (t) => {
    const process = startProcess(script, { ...settingsOf(platform()), PORT: '0', PLINTH_COLOUR: 'red' });
    await process.ready;
    process.child.kill('SIGTERM');
    t.is(await process.end, 0);
    t.regex(process.stdout(), /there is no setting PLINTH_COLOUR/);
  });

  test(`${script} ends when its supervisor goes away`, async (t) => {
    const process = startProcess(script, { ...settingsOf(platform()), PORT: '0' });
    await process.ready;
    process.child.disconnect();
    t.is(await process.end, 0, process.stderr());
  });
}

test('a worker for a queue that does not exist ends with code 78', async (t) => {
  const process = startProcess('workers/server.ts', { ...settingsOf(platform()), WORKER_QUEUES: 'functions,mail' });
  t.is(await process.end, 78);
  t.regex(process.stderr(), /WORKER_QUEUES: may name functions, system/);
});

test('an API that is told to stop finishes what it has begun, then ends by itself', async (t) => {
  t.timeout(longTestMs);
  const { client, config, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const code = 'exports.handler = () => new Promise((resolve) => setTimeout(resolve, 800, "finished"))';
  const slow = await client.deploy(user, project, code);
  // Ending by the drain time-out would take longer than this test may.
  const process = startProcess('api/server.ts', { ...environmentOf(config), PORT: '0', DRAIN_MS: '600000' });
  const { port } = await process.ready;
  const other = createClient(`http://127.0.0.1:${port}`);
  const answer = other.invoke(user, project, slow, null);
  await until(
    async () =>
      (await db.query(`select from jobs where project_id = $1 and type = 'function.invoke'`, [project.id])).length > 0,
  );
  process.child.kill('SIGTERM');
  t.like((await answer).body, { status: 'success', result: 'finished' });
  t.is(await process.end, 0);
  await t.throwsAsync(other.call('GET', '/healthz'));
});

test('a worker that is told to stop finishes what it has begun and takes nothing new', async (t) => {
  t.timeout(longTestMs);
  // A platform of its own, so that this worker is the only one.
  const own = await startPlatform({ worker: false });
  try {
    const worker = startProcess('workers/server.ts', { ...environmentOf(own.config), DRAIN_MS: '600000' });
    await worker.ready;
    const user = await own.client.signUp();
    const project = await own.client.createProject(user);
    const code = 'exports.handler = () => new Promise((resolve) => setTimeout(resolve, 800, "finished"))';
    const slow = await own.client.deploy(user, project, code);
    const answer = own.client.invoke(user, project, slow, null);
    const jobs = () =>
      own.db.query<{ status: string }>(`select status from jobs where type = 'function.invoke' order by id`);
    await until(async () => (await jobs())[0]?.status === 'running');
    worker.child.kill('SIGTERM');
    t.like((await answer).body, { status: 'success', result: 'finished' });
    t.is(await worker.end, 0, worker.stderr());
    const path = `/projects/${project.id}/functions/${slow.id}/invoke`;
    const headers = { prefer: 'respond-async' };
    await own.client.call('POST', path, { token: user.token, body: { payload: null }, headers });
    t.deepEqual(
      (await jobs()).map(({ status }) => status),
      ['succeeded', 'queued'],
    );
  } finally {
    await own.stop();
  }
});
