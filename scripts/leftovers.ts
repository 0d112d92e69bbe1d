import { setTimeout as delay } from 'node:timers/promises';
import { type ProcessRecord, isRunning } from './process-identity.ts';

const stages = ['task', 'app', 'infra'] as const;
const pollMs = 25;
const taskGraceMs = 3000;

export const signalProcess = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone already: that is what was wanted.
  }
};

/** Signals every process of the group that `leader` leads; each process that we start leads its own. */
export const signalGroup = (leader: number, signal: NodeJS.Signals): void => signalProcess(-leader, signal);

const allGone = async (records: readonly ProcessRecord[], withinMs: number): Promise<boolean> => {
  const until = Date.now() + withinMs;
  while (records.some(isRunning)) {
    if (Date.now() > until) return false;
    await delay(pollMs);
  }
  return true;
};

/**
 * Stops processes that lost their supervisor, in the order of their stages: asked first, killed when they have not
 * ended after `graceMs`. A pid that belongs to another process by now is left alone.
 */
export const stopLeftovers = async (records: readonly ProcessRecord[], graceMs: number): Promise<void> => {
  for (const stage of stages) {
    const running = records.filter((record) => record.stage === stage && isRunning(record));
    for (const record of running) signalProcess(record.pid, record.stopSignal);
    const ended = await allGone(running, stage === 'task' ? Math.min(graceMs, taskGraceMs) : graceMs);
    // The group, also of one that ended: what it started may still be there.
    for (const { pid } of running) signalGroup(pid, 'SIGKILL');
    if (ended) continue;
    for (const { pid } of running.filter(isRunning)) signalProcess(pid, 'SIGKILL');
    await allGone(running, graceMs);
  }
};
