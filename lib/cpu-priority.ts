import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';

/**
 * Processor time of code that tenants wrote, against the platform's own. The kernel gives each step of nice a weight
 * 1.25 times smaller than the step before (`sched_prio_to_weight`), and only where processors are scarce.
 */
const stepWeight = 1.25;
/** Compilers and single runs: half the weight of a thread of the platform. */
export const baseNice = 3;
/**
 * All runs of a project that has used much processor time of late: a tenth of the weight of a thread of the platform.
 */
export const busyNice = 10;
const highestNice = 19;

/** The nice value at which so many runs weigh together what one of them weighs at the base. */
export const niceOfEach = (runs: number, base: number = baseNice): number =>
  Math.min(highestNice, base + Math.round(Math.log(Math.max(1, runs)) / Math.log(stepWeight)));

const threadsOf = (pid: number): number[] => {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    // Not Linux, or the process has ended.
    return [pid];
  }
};

const attempt = (work: () => void): boolean => {
  try {
    work();
    return true;
  } catch {
    return false;
  }
};

const capSysNice = 1n << 23n;

/** Whether this process may give back what it has taken: without CAP_SYS_NICE a nice value can only rise. */
const mayLowerNice = (): boolean => {
  try {
    const [, effective = '0'] = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'latin1')) ?? [];
    return (BigInt(`0x${effective}`) & capSysNice) !== 0n;
  } catch {
    return false;
  }
};

let canLower: boolean | undefined;

/**
 * Sets the nice value of every thread of a process: Linux keeps one for each.
 * @returns false when it could not be set, the process has ended for instance
 */
export const setNice = (pid: number, nice: number): boolean => {
  // With autogroups, which most distributions turn on, the scheduler weighs sessions first: five runners in sessions of
  // their own would have five times the processor time of the whole platform, whatever their nice values.
  const ofSession = attempt(() => writeFileSync(`/proc/${pid}/autogroup`, String(nice)));
  const ofThreads = threadsOf(pid).map((thread) => attempt(() => setPriority(thread, nice)));
  return ofSession || ofThreads.every(Boolean);
};

/** As `setNice`, where the value can be lowered again; elsewhere only the weight of the session changes. */
export const changeNice = (pid: number, nice: number): boolean => {
  canLower ??= mayLowerNice();
  if (canLower) return setNice(pid, nice);
  return attempt(() => writeFileSync(`/proc/${pid}/autogroup`, String(nice)));
};

/**
 * A thread that works for the event loop of its process: a tenth of the loop's weight. Four threads of the same weight
 * on the loop's processor left it 0.5 of 2.5 s, at 19 they left it 1.6 s.
 */
export const helperThreadNice = 10;

/** Sets the nice value of the calling thread. Only Linux keeps one for each thread; elsewhere nothing is changed. */
export const setThreadNice = (nice: number): void => {
  if (process.platform === 'linux') attempt(() => setPriority(nice));
};
