import { readdirSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';

const lowest = 19;

const attempt = (work: () => void): void => {
  try {
    work();
  } catch {
    // The kernel has no groups by session, or a thread has just ended.
  }
};

/**
 * Gives a process that leads a session the lowest CPU priority. With the kernel's grouping by session
 * (`sched_autogroup_enabled`) the nice values of its threads count within the session only: that of the session decides.
 */
export const lowerPriority = (pid: number): void => {
  for (const thread of readdirSync(`/proc/${pid}/task`)) attempt(() => setPriority(Number(thread), lowest));
  attempt(() => writeFileSync(`/proc/${pid}/autogroup`, String(lowest)));
};
