import path from 'node:path';
import { StartError } from '../errors.ts';
import { lockOwner } from '../pid-lock.ts';
import { readSettings } from '../settings.ts';
import { onThrowawayServers } from '../throwaway.ts';
import type { Command } from './command.ts';

export const testServersLock = (dataDir: string): string => path.join(dataDir, 'test-servers.pid');

/** How the servers of `npm run test:servers` are reached, as settings; empty when they do not run. */
export const runningTestServers = (dataDir: string): Readonly<Record<string, string>> =>
  lockOwner(testServersLock(dataDir))?.environment ?? {};

const needed = ['DATABASE_URL', 'REDIS_URL', 'PLINTH_BWRAP'];

const addressesIn = (env: NodeJS.ProcessEnv): Record<string, string> =>
  Object.fromEntries(needed.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])));

/**
 * `npm run test:servers`: PostgreSQL and Redis for tests until `npm stop` or Ctrl-C. A run of `npm test` that finds
 * them begins at once, with the migrated templates that an earlier run has left.
 */
export const testServers: Command = async (_args, root) => {
  const { dataDir } = readSettings(process.env, root);
  const lockFile = testServersLock(dataDir);
  const owner = lockOwner(lockFile);
  if (owner !== null) throw new StartError(`the test servers run already (pid ${owner.pid}); \`npm stop\` stops them.`);
  const code = await onThrowawayServers(root, {
    durable: false,
    given: process.env,
    lockFile,
    use: ({ lock, site, stack }, env) => {
      lock.update({ environment: addressesIn(env) });
      site.narrator.print('npm test uses these servers until `npm stop` or Ctrl-C');
      return stack.failure;
    },
  });
  return code > 128 ? 0 : code;
};
