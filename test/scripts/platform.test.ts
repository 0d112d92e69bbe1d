import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { Client } from 'pg';
import { lockOwner, recordedProcesses } from '#scripts/pid-lock.ts';
import {
  isAlive,
  plainEnvironment,
  type Program,
  readText,
  root,
  runScript,
  temporaryFolder,
  until,
} from './support.ts';

interface Platform {
  readonly program: Program;
  readonly url: string;
}

const lockFile = (dataDir: string): string => path.join(dataDir, 'platform.pid');
const pidsOf = (dataDir: string): number[] => recordedProcesses(lockFile(dataDir)).map(({ pid }) => pid);
const pidOf = (dataDir: string, name: string, notThis?: number): Promise<number> =>
  until(
    () => recordedProcesses(lockFile(dataDir)).find((record) => record.name === name && record.pid !== notThis)?.pid,
  );

const cli = (command: string, dataDir: string): Program =>
  runScript([path.join(root, 'scripts/cli.mjs'), command], plainEnvironment({ DATA_DIR: dataDir, WORKERS: '1' }));

/** `npm start` up to the line that says it is ready. Whatever becomes of the test, it is stopped. */
const start = async (t: ExecutionContext, dataDir: string): Promise<Platform> => {
  const program = cli('start', dataDir);
  t.teardown(async () => {
    program.child.kill('SIGTERM');
    await program.end;
  });
  const ended = program.end.then((code) => {
    throw new Error(`It ended with ${code}: ${program.output()}`);
  });
  await Promise.race([until(() => program.output().includes('Ctrl-C stops everything')), ended]);
  return { program, url: /http:\/\/127\.0\.0\.1:\d+/.exec(program.output())?.[0] ?? '' };
};

const status = async (url: string): Promise<number | null> => {
  try {
    const response = await fetch(url);
    await response.body?.cancel();
    return response.status;
  } catch {
    return null;
  }
};

const isReady = (platform: Platform): Promise<true> =>
  until(async () => (await status(`${platform.url}/readyz`)) === 200);

const query = async (dataDir: string, sql: string): Promise<unknown[]> => {
  const password = readText(path.join(dataDir, 'postgres-password')).trim();
  const port = Number(readText(path.join(dataDir, 'postgres/postmaster.pid')).split('\n')[3]);
  const client = new Client({ host: '127.0.0.1', port, user: 'plinth', database: 'plinth', password });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
};

const opsToken = (dataDir: string): string => readText(path.join(dataDir, 'ops-token')).trim();

const nothingIsLeft = async (t: ExecutionContext, dataDir: string, pids: readonly number[]): Promise<void> => {
  await until(() => !pids.some(isAlive));
  await until(() => !existsSync(lockFile(dataDir)));
  t.deepEqual(
    readdirSync(dataDir).filter((name) => /making|\.pass|pid/.test(name)),
    [],
  );
};

test.serial(
  'npm start serves, is refused twice, outlives the death of each process, and stops without a trace',
  async (t) => {
    const dataDir = temporaryFolder(t);
    const platform = await start(t, dataDir);
    t.is(await status(`${platform.url}/healthz`), 200);
    t.true(platform.program.output().includes(opsToken(dataDir)), 'the token is shown on the first start');
    t.is(statSync(path.join(dataDir, 'secret-keys')).mode & 0o777, 0o600);

    const second = cli('start', dataDir);
    t.is(await second.end, 1);
    const owner = lockOwner(lockFile(dataDir))?.pid;
    t.true(second.output().includes(`already running (pid ${owner}) on ${platform.url}`));

    await query(dataDir, 'create table kept_over_a_restart ()');
    for (const name of ['postgres', 'redis', 'worker-1', 'api']) {
      const before = await pidOf(dataDir, name);
      process.kill(before, 'SIGKILL');
      await pidOf(dataDir, name, before);
      await isReady(platform);
    }

    const pids = pidsOf(dataDir);
    const stop = cli('stop', dataDir);
    t.is(await stop.end, 0);
    t.is(await platform.program.end, 0);
    await nothingIsLeft(t, dataDir, pids);

    const again = await start(t, dataDir);
    t.is(await status(`${again.url}/healthz`), 200);
    t.deepEqual(await query(dataDir, `select to_regclass('kept_over_a_restart')::text as kept`), [
      { kept: 'kept_over_a_restart' },
    ]);
    t.false(again.program.output().includes(opsToken(dataDir)), 'the token is shown on the first start only');

    const left = pidsOf(dataDir);
    again.program.child.kill('SIGKILL');
    await nothingIsLeft(t, dataDir, left);
  },
);

test.serial('settings that our processes refuse end the start with their code', async (t) => {
  const dataDir = temporaryFolder(t);
  const env = plainEnvironment({ DATA_DIR: dataDir, PLINTH_LOG_LEVEL: 'loudest', WORKERS: '1' });
  const program = runScript([path.join(root, 'scripts/cli.mjs'), 'start'], env);
  t.is(await program.end, 78);
  t.regex(program.output(), /PLINTH_LOG_LEVEL/);
  t.false(existsSync(lockFile(dataDir)));
});

test.serial('Ctrl-C while the database is made leaves nothing behind', async (t) => {
  const dataDir = temporaryFolder(t);
  const program = cli('start', dataDir);
  await until(() => existsSync(path.join(dataDir, 'postgres.making')));
  const pids = pidsOf(dataDir);
  program.child.kill('SIGINT');
  t.is(await program.end, 0);
  await nothingIsLeft(t, dataDir, pids);
});
