import { readFileSync, readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const ticksPerSecond = 100;

interface Times {
  readonly parent: number;
  /** The CPU time of itself and of its children that have ended, in seconds. */
  readonly cpu: number;
}

const timesOf = (pid: string): Times | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const [, parent = 0] = fields;
    const cpu = fields.slice(11, 15).reduce((sum, ticks) => sum + ticks, 0) / ticksPerSecond;
    return { parent, cpu };
  } catch {
    return null;
  }
};

/** CPU seconds of a process and all below it. Linux only. */
const treeCpuSeconds = (root: number): number => {
  const all = new Map<number, Times>();
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    const times = timesOf(name);
    if (times !== null) all.set(Number(name), times);
  }
  const isBelow = (pid: number): boolean => {
    for (let at = pid; at > 1; at = all.get(at)?.parent ?? 0) if (at === root) return true;
    return false;
  };
  let sum = 0;
  for (const [pid, { cpu }] of all) if (isBelow(pid)) sum += cpu;
  return sum;
};

const windowMs = 500;
/** The share of one processor; the platform at rest takes a fiftieth of one. */
const quietShare = 0.2;

/**
 * Resolves when the processes below that one, PostgreSQL and Redis included, have been at rest for a second, or too
 * late.
 */
export const untilQuiet = async (root: number, maxMs: number): Promise<void> => {
  const end = performance.now() + maxMs;
  let before = treeCpuSeconds(root);
  for (let quiet = 0; quiet < 2 && performance.now() < end;) {
    await delay(windowMs);
    const now = treeCpuSeconds(root);
    quiet = (now - before) / (windowMs / 1000) < quietShare ? quiet + 1 : 0;
    before = now;
  }
};
