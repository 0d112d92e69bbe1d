import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const bootId = (): string => {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
};

const linuxIdentity = (pid: number): string | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may hold anything: the fields begin after the last one. Field 3 is the state, 22 the
    // start.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, startTicks] = [fields[0], fields[19]];
    return state === 'Z' || state === 'X' || startTicks === undefined ? null : `${bootId()}:${startTicks}`;
  } catch {
    return null;
  }
};

const psIdentity = (pid: number): string | null => {
  const ps = spawnSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { encoding: 'utf8' });
  const line = ps.stdout?.trim() ?? '';
  return line === '' || line.startsWith('Z') ? null : line.replace(/^\S+\s+/, '');
};

/**
 * Returns the moment at which a process began, which tells it from another that later got the same pid. `null` when
 * there is none (or only a zombie).
 */
export const processIdentity = (pid: number): string | null =>
  process.platform === 'linux' ? linuxIdentity(pid) : psIdentity(pid);

/** A process as it is recorded for the one that has to stop it later. */
export interface ProcessRecord {
  readonly name: string;
  readonly pid: number;
  readonly identity: string;
  /** Stopped in this order: tasks (tests, helpers), then our processes, then what they need. */
  readonly stage: 'task' | 'app' | 'infra';
  readonly stopSignal: NodeJS.Signals;
}

export const isRunning = (record: Pick<ProcessRecord, 'pid' | 'identity'>): boolean =>
  processIdentity(record.pid) === record.identity;
