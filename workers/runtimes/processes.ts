import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

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

/**
 * Memory of a process in KiB: its anonymous pages, its own and those shared by a fork, and the tables that map them; not the
 * text of its program.
 */
export function anonymousKib(pid: number): number {
  const status = ofLivingThread(pid, 'status', 'RssAnon');
  return fieldOf(status, 'RssAnon') + fieldOf(status, 'RssShmem') + fieldOf(status, 'VmPTE');
}

/**
 * Like `anonymousKib`, but pages that it shares with others are divided among them: sums over processes are exact. Reading it
 * takes the longer the more there is: 35 ms were seen.
 */
export function proportionalKib(pid: number): number {
  const rollup = ofLivingThread(pid, 'smaps_rollup', 'Pss_Anon');
  // A worker that is not root may not look; what is resident is never too little.
  if (rollup === '') return anonymousKib(pid);
  const tables = fieldOf(ofLivingThread(pid, 'status', 'VmPTE'), 'VmPTE');
  return fieldOf(rollup, 'Pss_Anon') + fieldOf(rollup, 'Pss_Shmem') + tables;
}

/**
 * The same without keeping this process waiting: the kernel makes readers wait for whoever changes the mappings, and user
 * code that forks or maps in a loop was seen to hold one for a second.
 */
export async function readProportionalKib(pid: number): Promise<number> {
  const paths = [String(pid), ...threads(pid).map((thread) => `${pid}/task/${thread}`)];
  for (const path of paths) {
    const rollup = await readFile(`/proc/${path}/smaps_rollup`, 'latin1').catch(() => '');
    if (!rollup.includes('\nPss_Anon:')) continue;
    const tables = fieldOf(ofLivingThread(pid, 'status', 'VmPTE'), 'VmPTE');
    return fieldOf(rollup, 'Pss_Anon') + fieldOf(rollup, 'Pss_Shmem') + tables;
  }
  return anonymousKib(pid);
}

/**
 * A file that tells of the memory of a process. A main thread that has ended, while others go on, tells nothing of it: then
 * it is read of another thread, they share it. Empty when none has the field.
 */
function ofLivingThread(pid: number, file: string, field: string): string {
  const isTold = (text: string): boolean => text.includes(`\n${field}:`);
  const own = read(`/proc/${pid}/${file}`);
  if (isTold(own)) return own;
  for (const thread of threads(pid)) {
    const text = read(`/proc/${pid}/task/${thread}/${file}`);
    if (isTold(text)) return text;
  }
  return '';
}

/** Sockets of all kinds in the network namespace of a process; 0 when it is gone. */
export const socketsBeside = (pid: number): number =>
  Number(/^sockets: used (\d+)/.exec(read(`/proc/${pid}/net/sockstat`))?.[1] ?? 0);

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
