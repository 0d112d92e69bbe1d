import { readdirSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';

/**
 * A tenth of the weight of a process of usual priority. At 19 it would be a seventieth: beside abuses that take all
 * processors the client would not be heard any more, and the abuse would stop itself.
 */
const lower = 10;

const attempt = (work: () => void): void => {
  try {
    work();
  } catch {
    // The kernel has no groups by session, or a thread has just ended.
  }
};

/**
 * Gives a process that leads a session a lower CPU priority. With the kernel's grouping by session
 * (`sched_autogroup_enabled`) the nice values of its threads count within the session only: that of the session
 * decides.
 */
export const lowerPriority = (pid: number): void => {
  for (const thread of readdirSync(`/proc/${pid}/task`)) attempt(() => setPriority(Number(thread), lower));
  attempt(() => writeFileSync(`/proc/${pid}/autogroup`, String(lower)));
};
