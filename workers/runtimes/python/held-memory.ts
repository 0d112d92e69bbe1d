import { statfsSync } from 'node:fs';
import { anonymousKib, proportionalKib } from '../processes.ts';
import type { SandboxLevel } from '../runtime.ts';
import type { Measure } from '../watchdog.ts';

/** Entries of the workspace cost the kernel about 1 KiB each, which its size does not bound; so many are free. */
const freeEntries = 2000;

/**
 * What a zygote and the processes of its run hold. They share most pages: counted by what is resident, a process that forks
 * ten times would seem to hold ten times its memory. The exact figure is costly, so it is read only where there is more than
 * the one process of a run.
 */
export const heldMemory = (level: SandboxLevel): Measure => ({
  ticksPerTree: 1,
  heldKib: (pids, idlePids) => {
    const zygote = idlePids.at(-1) ?? 0;
    const started = pids.filter((pid) => !idlePids.includes(pid));
    return processesKib(started, zygote, idlePids) + (level === 'strict' ? entriesKib(zygote) : 0);
  },
});

function processesKib(started: readonly number[], zygote: number, idlePids: readonly number[]): number {
  const around = sum(idlePids.slice(0, -1), anonymousKib);
  if (started.length > 1) return around + sum([zygote, ...started], proportionalKib);
  const shared = anonymousKib(zygote);
  return around + shared + Math.max(0, sum(started, anonymousKib) - shared);
}

const sum = (pids: readonly number[], of: (pid: number) => number): number =>
  pids.reduce((total, pid) => total + of(pid), 0);

function entriesKib(zygote: number): number {
  try {
    const { files, ffree } = statfsSync(`/proc/${zygote}/root/tmp`);
    return Math.max(0, files - ffree - freeEntries);
  } catch {
    return 0;
  }
}
