import { baseNice, changeNice, niceOfEach } from '#lib/cpu-priority.ts';

/** The part of a project's share of processor time that one run has. */
export interface CpuShare {
  /**
   * Weighs the processes of the run by what is busy now. Called again and again: other runs begin and end, and user code
   * may write to /proc/self/autogroup.
   * @param started the processes that the guest started for it; without any, user code runs in the guest itself
   */
  readonly follow: (started: readonly number[]) => void;
  /** The run is over: its warm process returns to the base. */
  readonly leave: () => void;
}

/**
 * Gives projects, and not runs, an equal share of processor time: the more runs of a project go on at once on this worker,
 * the less each of them weighs. Processes that a run starts are in the session of its runner, which the scheduler weighs as
 * one; with a lower value for each of them, reading their memory had to wait for them so long that honest runs were ended.
 * Nothing is changed before the first tick of the watchdog: one change takes some 40 µs for the dozen threads of a Node, and
 * most runs are over by then.
 */
export class CpuShares {
  readonly #projects = new Map<string, Set<symbol>>();
  readonly #change: typeof changeNice;

  /** @param change how a process is given its nice value */
  constructor(change: typeof changeNice = changeNice) {
    this.#change = change;
  }

  /** @param guest the process that stays for the next run */
  enter(projectId: string, guest: number): CpuShare {
    const run = Symbol('run');
    const runs = this.#projects.get(projectId) ?? new Set<symbol>();
    this.#projects.set(projectId, runs.add(run));
    let isFollowed = false;
    return {
      follow: (started) => {
        const pids = started.length > 0 ? started : [guest];
        const nice = niceOfEach(runs.size);
        for (const pid of pids) this.#change(pid, nice);
        isFollowed = true;
      },
      leave: () => {
        runs.delete(run);
        if (runs.size === 0) this.#projects.delete(projectId);
        if (isFollowed) this.#change(guest, baseNice);
      },
    };
  }
}
