import { writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { readProc, threadsOf } from '#lib/processes.ts';

export { cpuTimeMs, processTree } from '#lib/processes.ts';

/**
 * Process data from the kernel (Linux; elsewhere every figure is 0 and a process has no known children). Read
 * synchronously: files of /proc never wait for a disk, and one takes about 10 µs.
 */

/** The process that started this one; 0 when it is gone. */
export const parentOf = (pid: number): number => fieldOf(readProc(`/proc/${pid}/status`), 'PPid');

/**
 * Memory of a process in KiB: its anonymous pages, its own and those shared by a fork, and the tables that map them;
 * not the text of its program.
 */
export function anonymousKib(pid: number): number {
  const status = ofLivingThread(pid, 'status', 'RssAnon');
  return fieldOf(status, 'RssAnon') + fieldOf(status, 'RssShmem') + fieldOf(status, 'VmPTE');
}

/**
 * Like `anonymousKib`, but pages that it shares with others are divided among them: sums over processes are exact.
 * Reading it takes the longer the more there is: 35 ms were seen.
 */
export function proportionalKib(pid: number): number {
  const rollup = ofLivingThread(pid, 'smaps_rollup', 'Pss_Anon');
  // A worker that is not root may not read it; resident size is never too little.
  if (rollup === '') return anonymousKib(pid);
  const tables = fieldOf(ofLivingThread(pid, 'status', 'VmPTE'), 'VmPTE');
  return fieldOf(rollup, 'Pss_Anon') + fieldOf(rollup, 'Pss_Shmem') + tables;
}

/**
 * The same without blocking this process: the kernel makes readers wait for changes of the mappings, and user code that
 * forks or maps in a loop was seen to hold one for a second.
 */
export async function readProportionalKib(pid: number): Promise<number> {
  const paths = [String(pid), ...threadsOf(pid).map((thread) => `${pid}/task/${thread}`)];
  for (const path of paths) {
    const rollup = await readFile(`/proc/${path}/smaps_rollup`, 'latin1').catch(() => '');
    if (!rollup.includes('\nPss_Anon:')) continue;
    const tables = fieldOf(ofLivingThread(pid, 'status', 'VmPTE'), 'VmPTE');
    return fieldOf(rollup, 'Pss_Anon') + fieldOf(rollup, 'Pss_Shmem') + tables;
  }
  return anonymousKib(pid);
}

/**
 * A file with the memory of a process. After its main thread has ended, while others go on, it is empty: then another
 * thread's is read, they share it. Empty when none has the field.
 */
function ofLivingThread(pid: number, file: string, field: string): string {
  const isNotified = (text: string): boolean => text.includes(`\n${field}:`);
  const own = readProc(`/proc/${pid}/${file}`);
  if (isNotified(own)) return own;
  for (const thread of threadsOf(pid)) {
    const text = readProc(`/proc/${pid}/task/${thread}/${file}`);
    if (isNotified(text)) return text;
  }
  return '';
}

/** Sockets of all kinds in the network namespace of a process; 0 when it is gone. */
export const socketsBeside = (pid: number): number =>
  Number(/^sockets: used (\d+)/.exec(readProc(`/proc/${pid}/net/sockstat`))?.[1] ?? 0);

/** When the machine runs out of memory the kernel takes this process before the worker or a database. */
export function dieFirst(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, '1000');
  } catch {
    // It has ended, or may not be touched: then the kernel chooses by size alone.
  }
}

const fieldOf = (text: string, name: string): number =>
  Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
