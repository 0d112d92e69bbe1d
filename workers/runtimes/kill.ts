import { parentOf } from './processes.ts';

/**
 * Kills a sandbox. With namespaces it is enough to kill the first process inside: all others there end with it, and
 * bubblewrap, its parent, still lives to take note and ends too. Killing bubblewrap itself would come to the same, but
 * leave a zombie to whatever is process 1, which in many containers never collects one.
 * @param outermost the process that we started, the leader of its group
 * @param pids the chain from there to the guest as it was when the guest became ready
 */
export function killInside(outermost: number, pids: readonly number[]): void {
  const [parent, init] = pids.slice(-3);
  if (pids.length >= 3 && init !== undefined && parentOf(init) === parent) kill(init);
  else killGroup(outermost);
}

/** Without namespaces the group is all that holds a guest together. */
export const killGroup = (leader: number): void => kill(-leader);

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It is gone already.
  }
}
