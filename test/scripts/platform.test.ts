import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { Client } from 'pg';
import { quietIn } from '#scripts/commands/start.ts';
import { lockOwner, recordedProcesses } from '#scripts/pid-lock.ts';
import {
  type Program,
  isAlive,
  plainEnvironment,
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

/** The processes connect over Unix sockets in folders that only their owner may enter. */
const serversAreReachedBySockets = async (t: ExecutionContext, dataDir: string): Promise<void> => {
  const byTcp = `select application_name from pg_stat_activity where application_name = 'plinth' and client_addr is not null`;
  t.deepEqual(await query(dataDir, byTcp), []);
  for (const folder of ['postgres-socket', 'redis-socket']) {
    t.is(statSync(path.join(dataDir, folder)).mode & 0o777, 0o700, folder);
    t.true(
      readdirSync(path.join(dataDir, folder), { withFileTypes: true }).some((entry) => entry.isSocket()),
      folder,
    );
  }
};

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
    await serversAreReachedBySockets(t, dataDir);

    const second = cli('start', dataDir);
    t.is(await second.end, 1);
    const owner = lockOwner(lockFile(dataDir))?.pid;
    t.true(second.output().includes(`already running (pid ${owner}) on ${platform.url}`));
    const shown = dataDir.replaceAll("'", String.raw`'\''`);
    t.true(second.output().includes(`Stop it with: DATA_DIR='${shown}' npm stop`), second.output());
    t.is(
      platform.program.output().split('loopback').length,
      2,
      'one warning about loopback, of all processes together',
    );

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

test.serial('settings that cannot be used are all named at once, before anything is made', async (t) => {
  const dataDir = temporaryFolder(t);
  const wrong = {
    PORT: 'web',
    WORKERS: '-1',
    WORKER_QUEUES: 'functions,cooking',
    PLINTH_LOG_LEVEL: 'loudest',
    PLINTH_AI_PRICES: path.join(dataDir, 'nowhere.json'),
    PLINTH_OPS_TOKEN: 'too-short',
  };
  const program = runScript(
    [path.join(root, 'scripts/cli.mjs'), 'start'],
    plainEnvironment({ DATA_DIR: dataDir, ...wrong }),
  );
  t.is(await program.end, 78);
  for (const name of Object.keys(wrong)) t.is(program.output().split(`${name}: `).length, 2, `${name} is named once`);
  t.false(program.output().includes(wrong.PLINTH_OPS_TOKEN));
  t.deepEqual(readdirSync(dataDir), []);
});

test.serial('with a database that was given, the missing key ring is named beside the rest', async (t) => {
  const given = { DATABASE_URL: 'postgres://u:p@127.0.0.1:1/x', DRAIN_MS: 'soon' };
  const env = plainEnvironment({ DATA_DIR: temporaryFolder(t), ...given });
  const program = runScript([path.join(root, 'scripts/cli.mjs'), 'start'], env);
  t.is(await program.end, 78);
  t.regex(program.output(), /PLINTH_SECRET_KEYS is not set/);
  t.regex(program.output(), /DRAIN_MS: must be a whole number from 0 to 600000/);
});

test('in a terminal only warnings are logged unless a level is set; elsewhere everything is', (t) => {
  t.deepEqual(quietIn({}, true), { PLINTH_LOG_LEVEL: 'warn' });
  t.deepEqual(quietIn({ PLINTH_LOG_LEVEL: 'debug' }, true), {});
  t.deepEqual(quietIn({}, false), {});
});

test('in a terminal an event is one line', async (t) => {
  const script = `
    const { createLog } = await import(${JSON.stringify(path.join(root, 'lib/log.ts'))});
    createLog({ level: 'info', format: 'pretty', process: 'api' }).info({ pools: ['a', 'b'], of: { depth: 2 } }, 'ready');`;
  const program = runScript(['--input-type=module', '-e', script]);
  t.is(await program.end, 0);
  t.is(program.output().trim().split('\n').length, 1, program.output());
  t.regex(program.output(), /api: ready.*pools.*depth/);
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
