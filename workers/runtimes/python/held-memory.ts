import { statfsSync } from 'node:fs';
import { anonymousKib, socketsBeside } from '../processes.ts';
import type { SandboxLevel } from '../runtime.ts';
import type { Measure } from '../watchdog.ts';
import { ExactMemory } from './exact-memory.ts';

/** Entries of the workspace cost the kernel about 1 KiB each, which its size does not bound; so many are free. */
const freeEntries = 2000;
/** Both ends of the 64 connections that the proxy allows, and some that stay inside. */
const freeSockets = 160;
/** Unread bytes of a socket are kernel memory, of which the kernel tells no sum: one socket can hold this much. */
const socketKib = 8 * 1024;

/**
 * Measures the memory of a zygote and the processes of its run. They share most pages: by resident size, a process that
 * forks ten times would seem to have ten times its memory. The exact figure is expensive, so it is read only where
 * there is more than the one process of a run.
 */
export const heldMemory = (level: SandboxLevel): Measure => {
  // Each runner gives the same list for all its life.
  const runners = new WeakMap<readonly number[], ExactMemory>();
  const exactOf = (idlePids: readonly number[]): ExactMemory => {
    const exact = runners.get(idlePids) ?? new ExactMemory();
    runners.set(idlePids, exact);
    return exact;
  };
  return {
    ticksPerTree: 1,
    heldKib: (pids, idlePids) => {
      const zygote = idlePids.at(-1) ?? 0;
      const started = pids.filter((pid) => !idlePids.includes(pid));
      const ofKernel = level === 'strict' ? entriesKib(zygote) + socketsKib(zygote) : 0;
      return processesKib(exactOf(idlePids), started, idlePids) + ofKernel;
    },
  };
};

function processesKib(exact: ExactMemory, started: readonly number[], idlePids: readonly number[]): number {
  const zygote = idlePids.at(-1) ?? 0;
  const around = sum(idlePids.slice(0, -1), anonymousKib);
  if (started.length > 1) return around + exact.heldKib([zygote, ...started]);
  const shared = anonymousKib(zygote);
  return around + shared + Math.max(0, sum(started, anonymousKib) - shared);
}

const sum = (pids: readonly number[], of: (pid: number) => number): number =>
  pids.reduce((total, pid) => total + of(pid), 0);

/**
 * Sockets of the network namespace, which is the sandbox's own: those that were sent to another process and closed
 * still count.
 */
const socketsKib = (zygote: number): number => Math.max(0, socketsBeside(zygote) - freeSockets) * socketKib;

function entriesKib(zygote: number): number {
  try {
    const { files, ffree } = statfsSync(`/proc/${zygote}/root/tmp`);
    return Math.max(0, files - ffree - freeEntries);
  } catch {
    return 0;
  }
}
