import { spawn } from 'node:child_process';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { configExitCode } from '#lib/config.ts';
import { provideRedis } from '#scripts/infra/redis.ts';
import { programRunner } from '#scripts/run-program.ts';
import { createTestDatabase } from '#test/support/databases.ts';
import { testConfig } from '#test/support/platform.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { plainEnvironment, root, runScript, temporaryFolder } from './support.ts';

const policy = 'allkeys-lru';
const advice =
  /REDIS_URL: the server has maxmemory-policy allkeys-lru.*Set maxmemory-policy to noeviction \(CONFIG SET maxmemory-policy noeviction/;

/** A real Redis that drops keys when its memory is full; ended with the test. */
const startEvictingRedis = async (t: ExecutionContext): Promise<string> => {
  const dataDir = temporaryFolder(t);
  const stopped = new AbortController();
  const { spec, url } = await provideRedis({
    root,
    dataDir,
    runtimeDir: path.join(root, '.data/runtime'),
    throwaway: true,
    durable: false,
    narrator: { print: () => undefined, during: (_what, work) => work() },
    run: programRunner({ signal: stopped.signal, began: () => undefined, ended: () => undefined }),
    signal: stopped.signal,
  });
  const args = [...spec.args, '--maxmemory-policy', policy];
  const child = spawn(spec.command, args, { cwd: spec.cwd, env: spec.env, stdio: 'ignore' });
  const gone = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
  });
  t.teardown(async () => {
    stopped.abort();
    child.kill('SIGKILL');
    await gone;
  });
  await spec.ready(child, stopped.signal);
  return url;
};

for (const script of ['api/server.ts', 'workers/server.ts']) {
  test(`${script} does not start on a Redis that evicts keys, and says what to set`, async (t) => {
    const [redisUrl, database] = await Promise.all([startEvictingRedis(t), createTestDatabase()]);
    t.teardown(database.drop);
    const config = testConfig(database.url, { REDIS_URL: redisUrl });
    const { end, stderr } = startProcess(script, environmentOf(config));
    t.is(await end, configExitCode);
    t.regex(stderr(), advice);
    t.is(stderr().trim().split('\n').length, 1, 'the advice alone, without a stack');
  });
}

test('npm start on a Redis that evicts keys says what to set, and ends', async (t) => {
  const [redisUrl, database] = await Promise.all([startEvictingRedis(t), createTestDatabase()]);
  t.teardown(database.drop);
  const { PLINTH_SECRET_KEYS: keys } = testConfig(database.url);
  const env = {
    DATA_DIR: temporaryFolder(t),
    DATABASE_URL: database.url,
    REDIS_URL: redisUrl,
    PLINTH_SECRET_KEYS: keys,
    PORT: '0',
    WORKERS: '1',
  };
  const start = runScript([path.join(root, 'scripts/cli.mjs'), 'start'], plainEnvironment(env));
  t.not(await start.end, 0);
  t.regex(start.output(), advice);
  t.notRegex(start.output(), /\n {4}at /, 'without a stack');
});
