import { accessSync, constants, mkdirSync } from 'node:fs';
import path from 'node:path';
import { StartError, explain, notWritable } from './errors.ts';
import { memoryFolderOf } from './infra/memory-folder.ts';
import type { Site } from './infra/site.ts';
import { stopLeftovers } from './leftovers.ts';
import type { Narrator } from './narrator.ts';
import { type LockRecord, type PidLock, claimLock } from './pid-lock.ts';
import { Stack } from './stack.ts';

export interface Surroundings {
  readonly site: Site;
  readonly stack: Stack;
  readonly lock: PidLock;
}

export interface StackPlan extends Pick<
  Site,
  'root' | 'dataDir' | 'runtimeDir' | 'databaseDir' | 'throwaway' | 'durable' | 'narrator'
> {
  readonly lockFile: string;
  readonly drainMs: number;
}

/** On a read-only disk mkdir may fail with whatever code: that the folder cannot be had is what counts. */
const makeDataFolder = (folder: string): void => {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw notWritable(folder, (error as NodeJS.ErrnoException).code ?? '');
  }
};

const leftoverGraceMs = 15_000;
// npm and the terminal both pass one Ctrl-C on: what comes this soon is not a second one.
const oneKeyPressMs = 300;

const inShell = (text: string): string =>
  /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;

/** `npm stop` stops the platform of the given folder. */
const stopCommand = (dataDir: string, root: string): string =>
  dataDir === path.join(root, '.data') ? 'npm stop' : `DATA_DIR=${inShell(dataDir)} npm stop`;

const alreadyRunning = (owner: LockRecord, { dataDir, root }: StackPlan): StartError => {
  const where = owner.url === undefined ? '(it is still starting)' : `on ${owner.url}`;
  return new StartError(
    `already running (pid ${owner.pid}) ${where}, with the data in ${dataDir}. Stop it with: ${stopCommand(dataDir, root)}`,
  );
};

/** Resolves with the exit code that belongs to the first signal; a second Ctrl-C stops at once. */
const firstSignal = (stack: Stack, narrator: Narrator): Promise<number> =>
  new Promise((resolve) => {
    let firstAt: number | null = null;
    const receive = (signal: NodeJS.Signals, code: number): void => {
      if (firstAt === null) {
        firstAt = performance.now();
        narrator.print(signal === 'SIGINT' ? 'stopping; press Ctrl-C again to stop at once' : `stopping (${signal})`);
        resolve(code);
      } else if (signal === 'SIGINT' && performance.now() - firstAt > oneKeyPressMs) {
        narrator.print('stopping at once');
        stack.kill();
      }
    };
    process.on('SIGINT', () => receive('SIGINT', 130));
    process.on('SIGTERM', () => receive('SIGTERM', 143));
    process.on('SIGHUP', () => receive('SIGHUP', 129));
  });

const report = (error: unknown, narrator: Narrator): number => {
  const known = explain(error);
  narrator.print(known?.message ?? (error instanceof Error ? (error.stack ?? error.message) : String(error)));
  return known?.exitCode ?? 1;
};

/**
 * Claims the data folder, gives `work` a stack to start processes with, and whatever happens (an error, a signal, a
 * process that cannot be kept running) stops them all again. Resolves with the exit code.
 * @throws {StartError} when another process has the folder
 */
export const withStack = async (
  plan: StackPlan,
  work: (surroundings: Surroundings) => Promise<number>,
): Promise<number> => {
  const { lockFile, dataDir, narrator, throwaway } = plan;
  makeDataFolder(dataDir);
  const claim = claimLock(lockFile);
  if (!claim.taken) throw alreadyRunning(claim.owner, plan);
  const { lock, leftovers } = claim;
  const stack = new Stack({
    lock,
    lockFile,
    narrator,
    graceMs: plan.drainMs + 2000,
    temporaryFolders: throwaway ? [dataDir, memoryFolderOf(dataDir)] : [],
  });
  const signalled = firstSignal(stack, narrator);
  const site: Site = { ...plan, run: stack.run, signal: stack.signal };
  const begin = async (): Promise<number> => {
    await stopLeftovers(leftovers, leftoverGraceMs);
    return work({ site, stack, lock });
  };
  try {
    return await Promise.race([begin(), signalled, stack.failure]);
  } catch (error) {
    return report(error, narrator);
  } finally {
    await stack.stop();
  }
};
