import type { RunNote } from './witness.ts';

/** One run of one job, from what the job itself said. Times in µs of the witness's clock. */
export interface Run {
  readonly type: string;
  readonly jobId: string;
  readonly projectId: string;
  readonly worker: string;
  readonly from: number;
  /** Its finish, or the death of its worker; null while neither is known. */
  readonly to: number | null;
  readonly finished: boolean;
}

/** A limit as it is from some moment on. */
export interface LimitChange {
  readonly type: string;
  /** Null: all projects together. */
  readonly projectId: string | null;
  readonly limit: number;
  readonly from: number;
}

const keyOf = ({ worker, jobId }: RunNote): string => `${worker} ${jobId}`;

/** @param deaths when each worker that is gone ended */
export const runsOf = (notes: readonly RunNote[], deaths: ReadonlyMap<string, number>): Run[] => {
  const finishes = new Map<string, number[]>();
  for (const note of notes) {
    if (note.what === 'finish') finishes.set(keyOf(note), [...(finishes.get(keyOf(note)) ?? []), note.at]);
  }
  return notes
    .filter(({ what }) => what === 'start')
    .map((note) => {
      const { type, jobId, projectId, worker, at } = note;
      const finish = finishes.get(keyOf(note))?.shift();
      const to = finish ?? deaths.get(worker) ?? null;
      return { type, jobId, projectId, worker, from: at, to, finished: finish !== undefined };
    });
};

export interface Peaks {
  /** The most that ever ran at a time: of one project, and of all. */
  readonly project: number;
  readonly all: number;
  /** Each moment at which a limit was exceeded, in words. */
  readonly problems: readonly string[];
}

interface Edge {
  readonly at: number;
  readonly by: 1 | -1;
  readonly run: Run;
}

const edgesOf = (runs: readonly Run[]): Edge[] =>
  runs
    .flatMap((run): Edge[] => [
      { at: run.from, by: 1, run },
      { at: run.to ?? Number.POSITIVE_INFINITY, by: -1, run },
    ])
    // When two events have the same moment, the end comes first.
    .toSorted((a, b) => a.at - b.at || a.by - b.by);

/** The limits in force at a moment; changes are in order of time. */
const limitAt = (changes: readonly LimitChange[], type: string, projectId: string | null, at: number): number =>
  changes.findLast((one) => one.type === type && one.projectId === projectId && one.from <= at)?.limit ??
  (projectId === null ? Number.POSITIVE_INFINITY : limitAt(changes, type, '*', at));

const add = (counts: Map<string, number>, key: string, by: number): number => {
  const now = (counts.get(key) ?? 0) + by;
  counts.set(key, now);
  return now;
};

/**
 * Goes through all starts and ends in order of time. A limit that was lowered binds who starts, not who runs already.
 * @param limits `*` as project: every project that has no limit of its own
 */
export const peaksOf = (runs: readonly Run[], limits: readonly LimitChange[]): Peaks => {
  const counts = new Map<string, number>();
  const problems: string[] = [];
  let [project, all] = [0, 0];
  for (const { at, by, run } of edgesOf(runs)) {
    const { type, projectId, jobId } = run;
    const ofProject = add(counts, `${type} ${projectId}`, by);
    const ofType = add(counts, type, by);
    const ofJob = add(counts, jobId, by);
    if (by < 0) continue;
    project = Math.max(project, ofProject);
    all = Math.max(all, ofType);
    const own = limitAt(limits, type, projectId, at);
    const shared = limitAt(limits, type, null, at);
    if (ofProject > own) problems.push(`${ofProject} ${type} of one project ran at a time, limit ${own}`);
    if (ofType > shared) problems.push(`${ofType} ${type} ran at a time, limit ${shared}`);
    if (ofJob > 1) problems.push(`job ${jobId} (${type}) ran twice at a time`);
  }
  return { project, all, problems };
};

/** From a fault to the first start after it was over, in ms; null when nothing started any more. */
export const recoveryMs = (runs: readonly Run[], faultAt: number, overAt: number): number | null => {
  const first = runs.find(({ from }) => from >= overAt);
  return first === undefined ? null : (first.from - faultAt) / 1000;
};
