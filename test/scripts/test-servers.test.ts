import { existsSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { runningTestServers, testServersLock } from '#scripts/commands/test-servers.ts';
import { memoryFolderOf } from '#scripts/infra/memory-folder.ts';
import { recordedProcesses } from '#scripts/pid-lock.ts';
import { type Program, isAlive, plainEnvironment, root, runScript, temporaryFolder, until } from './support.ts';

const cli = (command: string, dataDir: string): Program =>
  runScript([path.join(root, 'scripts/cli.mjs'), command], plainEnvironment({ DATA_DIR: dataDir }));

const answers = async ({ DATABASE_URL = '', REDIS_URL = '' }: Readonly<Record<string, string>>): Promise<unknown[]> => {
  const client = new Client({ connectionString: DATABASE_URL });
  const redis = new Redis(REDIS_URL);
  try {
    await client.connect();
    return [(await client.query('select 1 as one')).rows, await redis.ping()];
  } finally {
    await client.end();
    redis.disconnect();
  }
};

test('the test servers are found by their data folder, refused twice, and stopped without a trace by npm stop', async (t) => {
  const dataDir = temporaryFolder(t);
  t.deepEqual(runningTestServers(dataDir), {});
  const servers = cli('test-servers', dataDir);
  t.teardown(async () => {
    servers.child.kill('SIGTERM');
    await servers.end;
  });
  const ended = servers.end.then((code) => {
    throw new Error(`They ended with ${code}: ${servers.output()}`);
  });
  await Promise.race([until(() => 'DATABASE_URL' in runningTestServers(dataDir)), ended]);
  t.deepEqual(await answers(runningTestServers(dataDir)), [[{ one: 1 }], 'PONG']);

  const second = cli('test-servers', dataDir);
  t.is(await second.end, 1);
  t.regex(second.output(), /the test servers run already \(pid \d+\)/);

  const pids = recordedProcesses(testServersLock(dataDir)).map(({ pid }) => pid);
  t.is(await cli('stop', dataDir).end, 0);
  t.is(await servers.end, 0);
  await until(() => !pids.some(isAlive));
  t.deepEqual(runningTestServers(dataDir), {});
  const folder = path.join(root, `.data-test-${servers.pid}`);
  t.false(existsSync(folder));
  t.false(existsSync(memoryFolderOf(folder)));
});
