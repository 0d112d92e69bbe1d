import { setTimeout as delay } from 'node:timers/promises';
import { StartError } from '../errors.ts';
import { signalProcess, stopLeftovers } from '../leftovers.ts';
import { narrateTo } from '../narrator.ts';
import { type LockRecord, lockOwner, recordedProcesses } from '../pid-lock.ts';
import { isRunning } from '../process-identity.ts';
import { readSettings } from '../settings.ts';
import type { Command } from './command.ts';
import { lockFileIn } from './start.ts';
import { testServersLock } from './test-servers.ts';

// Above what draining and the two servers may take together.
const slackMs = 40_000;

const stopOwner = async (owner: LockRecord, withinMs: number): Promise<void> => {
  signalProcess(owner.pid, 'SIGTERM');
  const until = Date.now() + withinMs;
  while (isRunning(owner)) {
    if (Date.now() > until)
      throw new StartError(`pid ${owner.pid} has not ended: end it with \`kill -9 ${owner.pid}\`.`);
    await delay(50);
  }
};

/** `npm stop`: stops the platform on this data folder and the test servers, and waits until both are gone. */
export const stop: Command = async (_args, root) => {
  const { dataDir, drainMs } = readSettings(process.env, root);
  const { print } = narrateTo(process.stdout);
  let found = false;
  for (const lockFile of [lockFileIn(dataDir), testServersLock(dataDir)]) {
    const owner = lockOwner(lockFile);
    if (owner === null) {
      // Its supervisor and its guard may both have been killed.
      await stopLeftovers(recordedProcesses(lockFile), drainMs);
      continue;
    }
    found = true;
    print(`stopping (pid ${owner.pid})`);
    await stopOwner(owner, drainMs + slackMs);
  }
  print(found ? 'stopped' : `not running with the data in ${dataDir}`);
  return 0;
};
