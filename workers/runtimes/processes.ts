import { readFileSync, readdirSync, writeFileSync } from 'node:fs';

/**
 * What the kernel says about processes (Linux; elsewhere every figure is 0 and a process has no known children).
 * Read synchronously: files of /proc never wait for a disk, and one takes about 10 µs.
 */

const clockTickMs = 10;

/** A process and all its descendants, the oldest first. */
export function processTree(pid: number): number[] {
  const tree = [pid];
  for (const parent of tree) tree.push(...children(parent));
  return tree;
}

/** The process that started this one; 0 when it is gone. */
export const parentOf = (pid: number): number => fieldOf(read(`/proc/${pid}/status`), 'PPid');

/** Memory of a process in KiB: its anonymous pages, its own and those shared by a fork, not the text of its program. */
export function anonymousKib(pid: number): number {
  const status = read(`/proc/${pid}/status`);
  return fieldOf(status, 'RssAnon') + fieldOf(status, 'RssShmem');
}

/**
 * Memory of a process in KiB, pages that it shares with others divided among them: sums over processes are exact. Reading it
 * takes the longer the more there is, up to milliseconds.
 */
export function proportionalKib(pid: number): number {
  const rollup = read(`/proc/${pid}/smaps_rollup`);
  const fields = ['Pss_Anon', 'Pss_Shmem'].map((name) => new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(rollup)?.[1]);
  // A worker that is not root may not look; what is resident is never too little.
  return fields[0] === undefined ? anonymousKib(pid) : Number(fields[0]) + Number(fields[1] ?? 0);
}

/** CPU time that the process has used, with what its ended children used. */
export function cpuTimeMs(pid: number): number {
  const stat = read(`/proc/${pid}/stat`);
  // The second field is the program's name, which may itself hold spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = fields.slice(11, 15).map(Number);
  return ticks.reduce((sum, value) => sum + value, 0) * clockTickMs;
}

/** When the machine runs out of memory the kernel takes this process before the worker or a database. */
export function dieFirst(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, '1000');
  } catch {
    // It has ended, or may not be touched: then the kernel chooses by size alone.
  }
}

function children(pid: number): number[] {
  const lists = threads(pid).map((thread) => read(`/proc/${pid}/task/${thread}/children`));
  return lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
}

function threads(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

const fieldOf = (text: string, name: string): number =>
  Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);

/** Empty when the process is gone. */
function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
