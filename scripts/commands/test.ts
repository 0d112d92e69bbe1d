import { spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Site } from '../infra/site.ts';
import { readSettings } from '../settings.ts';
import { type Slowness, measureSlowness } from '../slowness.ts';
import { onThrowawayServers } from '../throwaway.ts';
import { filesToGroup, writeTestGroups } from '../test-groups.ts';
import type { Command } from './command.ts';
import { runningTestServers } from './test-servers.ts';

/** The logs of a run that failed are what explains it: they outlive the run, until the next one that fails. */
const keepLogs = (site: Site): void => {
  const folder = path.join(site.root, '.data/test-logs');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(site.dataDir).filter((entry) => entry.endsWith('.log'))) {
    copyFileSync(path.join(site.dataDir, name), path.join(folder, name));
  }
  site.narrator.print(`what the processes wrote meanwhile is kept in ${folder}`);
};

/** The arguments of ava. For whole folders it gets groups of files, which load the application once. */
const avaOptions = (
  args: readonly string[],
  { root, dataDir }: Site,
): { args: readonly string[]; env: NodeJS.ProcessEnv } => {
  const files = filesToGroup(args, root);
  if (files === null) return { args, env: {} };
  const pattern = writeTestGroups(files, root, path.join(dataDir, 'groups'));
  return { args: args.filter((arg) => arg === '--tap'), env: { PLINTH_TEST_FILES: pattern } };
};

/**
 * How many groups of files run at a time. Each holds its own databases, Redis keys and sandboxed processes: two cores
 * serve three groups well, two where they are slow, and one where others keep them busy. Four take 6 % less time, and
 * then no connection is found within seconds now and then.
 */
const concurrencyOf = ({ times, isBusy }: Slowness): number => {
  if (isBusy) return 1;
  return times < 2 ? 3 : 2;
};

/**
 * `npm test [ava arguments]`: the tests on throw-away data, on the servers of `npm run test:servers` if they run and on
 * servers of its own otherwise. The exit code is that of ava.
 */
export const test: Command = (args, root) => {
  const slowness = measureSlowness();
  return onThrowawayServers(root, {
    durable: false,
    // A whole run asks for vectors early on; one file seldom does.
    vectorFirst: filesToGroup(args, root) !== null,
    given: { ...runningTestServers(readSettings(process.env, root).dataDir), ...process.env },
    use: async ({ site, stack }, env) => {
      const { times } = slowness;
      if (times >= 1.3) site.narrator.print(`this machine is busy or slow: tests are given ${times} times as long`);
      const options = avaOptions(args, site);
      const child = spawn(process.execPath, [path.join(root, 'node_modules/ava/entrypoints/cli.js'), ...options.args], {
        cwd: root,
        env: {
          PLINTH_TEST_SLOWNESS: String(times),
          PLINTH_TEST_CONCURRENCY: String(concurrencyOf(slowness)),
          ...env,
          ...options.env,
        },
        stdio: 'inherit',
        // In a group of its own ava can be ended with all its processes; watching, it has to stay at the keyboard.
        detached: !args.some((arg) => arg === '--watch' || arg === '-w'),
      });
      const code = await stack.attend('tests', child);
      if (code !== 0 && !site.signal.aborted) keepLogs(site);
      return code;
    },
  });
};
