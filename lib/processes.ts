import { readFileSync, readdirSync } from 'node:fs';

/** Process data from the kernel (Linux; elsewhere every figure is 0 and a process has no known children). */

const clockTickMs = 10;

/** A process and all its descendants, the oldest first. */
export function processTree(pid: number): number[] {
  const tree = [pid];
  for (const parent of tree) tree.push(...childrenOf(parent));
  return tree;
}

/** CPU time that the process has used, with what its ended children used. */
export function cpuTimeMs(pid: number): number {
  const stat = readProc(`/proc/${pid}/stat`);
  // The second field is the program's name, which may itself hold spaces and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ticks = fields.slice(11, 15).map(Number);
  return ticks.reduce((sum, value) => sum + value, 0) * clockTickMs;
}

function childrenOf(pid: number): number[] {
  const lists = threadsOf(pid).map((thread) => readProc(`/proc/${pid}/task/${thread}/children`));
  return lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number));
}

export function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/** Empty when the process is gone. */
export function readProc(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
