import { readFileSync, readdirSync } from 'node:fs';

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
export const parentOf = (pid: number): number => statusField(pid, 'PPid');

/** Memory that belongs to the process alone, in KiB: its anonymous pages, not the shared text of its program. */
export const anonymousKib = (pid: number): number => statusField(pid, 'RssAnon');

/** CPU time that the process has used, with what its ended children used. */
export function cpuTimeMs(pid: number): number {
  const stat = read(`/proc/${pid}/stat`);
  // The second field is the program's name, which may itself hold spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = fields.slice(11, 15).map(Number);
  return ticks.reduce((sum, value) => sum + value, 0) * clockTickMs;
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

function statusField(pid: number, name: string): number {
  const found = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(read(`/proc/${pid}/status`));
  return Number(found?.[1] ?? 0);
}

/** Empty when the process is gone. */
function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
