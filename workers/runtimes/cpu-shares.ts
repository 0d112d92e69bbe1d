import { baseNice, busyNice, changeNice, niceOfEach } from '#lib/cpu-priority.ts';

/** The part of a project's share of processor time that one run has. */
export interface CpuShare {
  /**
   * Weighs the processes of the run by what is busy now. Called again and again: other runs begin and end, and user
   * code may write to /proc/self/autogroup.
   * @param started the processes that the guest started for it; without any, user code runs in the guest itself
   * @param cpuMs processor time that the run has used so far
   */
  readonly follow: (started: readonly number[], cpuMs: number) => void;
  /** The run is over: its warm process returns to the base. */
  readonly leave: () => void;
}

/**
 * A project that uses more than a tenth of a processor, and a second at once, weighs less. It weighs as before at most
 * 20 s after its last use. The start of a runner is 0.2 to 0.5 s of that.
 */
const creditPerMs = 0.1;
const burstMs = 1000;
const maxUsedMs = burstMs + 20_000 * creditPerMs;
const maxKept = 1000;

interface ProjectUse {
  readonly runs: Set<symbol>;
  /** Processor time of late, less what was credited since; in ms. */
  usedMs: number;
  /** When `usedMs` was right. */
  at: number;
}

const usedNow = ({ usedMs, at }: ProjectUse, now: number): number => Math.max(0, usedMs - (now - at) * creditPerMs);

const noteUse = (project: ProjectUse, cpuMs: number, now: number): void => {
  project.usedMs = Math.min(maxUsedMs, usedNow(project, now) + cpuMs);
  project.at = now;
};

const isBusy = (project: ProjectUse, now: number): boolean => usedNow(project, now) > burstMs;

const niceOf = (project: ProjectUse, now: number): number =>
  niceOfEach(project.runs.size, isBusy(project, now) ? busyNice : baseNice);

/**
 * Gives projects, and not runs, an equal share of processor time: the more runs of a project go on at once on this
 * worker, the less each of them weighs, and all weigh less when the project has used much, starts of its runners
 * included. Processes that a run starts are in the session of its runner, which the scheduler weighs as one; with a lower
 * value for each of them, reading their memory had to wait for them so long that honest runs were ended. Of a project that has used little nothing is
 * changed before the first tick of the watchdog: one change takes some 40 µs for the dozen threads of a Node, and most
 * runs are over by then.
 */
export class CpuShares {
  readonly #projects = new Map<string, ProjectUse>();
  readonly #change: typeof changeNice;
  readonly #now: () => number;

  /**
   * @param change how a process is given its nice value
   * @param now milliseconds of a clock that never goes back
   */
  constructor(change: typeof changeNice = changeNice, now: () => number = () => performance.now()) {
    this.#change = change;
    this.#now = now;
  }

  /**
   * Sets the nice values of a runner that is starting. It is called repeatedly, because bubblewrap gives the guest a
   * session of its own while it starts, which would weigh as much as the whole platform.
   * @param projectId the project that the runner starts for; undefined for a spare
   */
  weighStart(projectId: string | undefined, pids: readonly number[]): void {
    const project = projectId === undefined ? undefined : this.#projects.get(projectId);
    const nice = project !== undefined && isBusy(project, this.#now()) ? busyNice : baseNice;
    for (const pid of pids) this.#change(pid, nice);
  }

  /** Charges the processor time of a runner's start to the project that runs on it first. */
  noteStart(projectId: string, cpuMs: number): void {
    noteUse(this.#projectOf(projectId), cpuMs, this.#now());
  }

  /** @param guest the process that stays for the next run */
  enter(projectId: string, guest: number): CpuShare {
    const run = Symbol('run');
    const project = this.#projectOf(projectId);
    project.runs.add(run);
    let [isChanged, countedMs] = [false, 0];
    const change = (pids: readonly number[]): void => {
      const nice = niceOf(project, this.#now());
      for (const pid of pids) this.#change(pid, nice);
      isChanged = true;
    };
    if (isBusy(project, this.#now())) change([guest]);
    return {
      follow: (started, cpuMs) => {
        noteUse(project, Math.max(0, cpuMs - countedMs), this.#now());
        countedMs = Math.max(countedMs, cpuMs);
        change(started.length > 0 ? started : [guest]);
      },
      leave: () => {
        project.runs.delete(run);
        if (isChanged) this.#change(guest, baseNice);
      },
    };
  }

  #projectOf(projectId: string): ProjectUse {
    const known = this.#projects.get(projectId);
    if (known !== undefined) return known;
    if (this.#projects.size >= maxKept) this.#forgetOthers();
    const fresh = { runs: new Set<symbol>(), usedMs: 0, at: this.#now() };
    this.#projects.set(projectId, fresh);
    return fresh;
  }

  /** Projects that run nothing and have used nothing of late are like those that are not known. */
  #forgetOthers(): void {
    const now = this.#now();
    for (const [projectId, project] of this.#projects) {
      if (project.runs.size === 0 && usedNow(project, now) === 0) this.#projects.delete(projectId);
    }
  }
}
