import { jobOf } from './jobs.ts';
import type { Scene } from './scene.ts';
import { untilAtRest } from './rest.ts';
import { type Run, peaksOf, recoveryMs, runsOf } from './timeline.ts';
import { clock } from './witness.ts';

/** The result of one scenario. */
export interface Verdict {
  readonly name: string;
  readonly did: string;
  readonly accepted: number;
  readonly refused: number;
  /** Succeeded or failed. */
  readonly finished: number;
  readonly cancelled: number;
  readonly dead: number;
  readonly highest: { readonly project: number; readonly all: number };
  /** From the fault to the first start after it was over. */
  readonly recoveredMs: number | null;
  /** From the end of the fault until nothing waited or ran any more, the load included. */
  readonly restMs: number;
  readonly problems: readonly string[];
  readonly notes: readonly string[];
}

interface Row {
  readonly id: string;
  readonly type: string;
  readonly status: string;
  readonly request_id: string;
  readonly error_code: string | null;
  readonly finished: boolean;
}

const rowsOf = ({ db }: Scene): Promise<Row[]> =>
  db.query<Row>('select id, type, status, request_id, error_code, finished_at is not null as finished from jobs');

/** The outcomes that callers received must be those of the rows. */
const compareJournal = (
  scene: Scene,
  rows: readonly Row[],
): { problems: string[]; notes: string[]; refused: number } => {
  const [problems, notes]: [string[], string[]] = [[], []];
  const byId = new Map(rows.map((row) => [row.id, row]));
  const byKey = new Map(rows.map((row) => [row.request_id, row]));
  const lines = scene.journal();
  for (const line of lines) {
    if (line.what === 'refused') {
      // A commit whose answer never came may have been kept; who needs to know sends an idempotency key.
      if (byKey.has(line.key)) notes.push(`${line.key} was answered ${line.code} and ran all the same`);
      continue;
    }
    const row = byId.get(line.id);
    if (row === undefined) problems.push(`accepted job ${line.id} is lost`);
    else if (line.reported !== null && line.reported !== row.status) {
      problems.push(`the caller of ${line.id} was told ${line.reported}, its row says ${row.status}`);
    }
  }
  return { problems, notes, refused: lines.filter(({ what }) => what === 'refused').length };
};

const compareRuns = (rows: readonly Row[], runs: readonly Run[]): string[] => {
  const problems: string[] = [];
  const byJob = Map.groupBy(runs, ({ jobId }) => jobId);
  const known = new Set(rows.map(({ id }) => id));
  for (const row of rows) {
    const own = byJob.get(row.id) ?? [];
    if (row.type === jobOf('once').type && own.length > 1)
      problems.push(`${row.id} may run once and ran ${own.length} times`);
    if (row.status === 'succeeded' && !own.some(({ finished }) => finished)) {
      problems.push(`${row.id} is recorded as succeeded and never finished`);
    }
    if (!row.finished) problems.push(`${row.id} has no end`);
  }
  for (const id of byJob.keys()) if (!known.has(id)) problems.push(`${id} ran and has no row`);
  return problems;
};

const countOf = (rows: readonly Row[], ...statuses: readonly string[]): number =>
  rows.filter(({ status }) => statuses.includes(status)).length;

export interface Judged {
  readonly did: string;
  readonly restWithinMs: number;
  readonly isWitnessed: boolean;
  /** The findings of the scenario itself. */
  readonly problems: readonly string[];
}

const shown = 5;
const shortened = (problems: readonly string[]): string[] =>
  problems.length <= shown ? [...problems] : [...problems.slice(0, shown), `… and ${problems.length - shown} more`];

/** Waits for rest, then holds the rows against what callers were told and what the jobs told the witness. */
export const judge = async (scene: Scene, { did, restWithinMs, isWitnessed, problems }: Judged): Promise<Verdict> => {
  const left = await untilAtRest(scene, restWithinMs);
  const restAt = clock();
  const { faultAt, overAt } = scene.times();
  const rows = await rowsOf(scene);
  const runs = runsOf(await scene.witness.notes(scene.config.PLINTH_REDIS_PREFIX), scene.deaths);
  const peaks = peaksOf(runs, scene.limits);
  const journal = compareJournal(scene, rows);
  const ended = countOf(rows, 'succeeded', 'failed', 'dead', 'cancelled', 'expired');
  return {
    name: scene.name,
    did,
    accepted: rows.length,
    refused: journal.refused,
    finished: countOf(rows, 'succeeded', 'failed'),
    cancelled: countOf(rows, 'cancelled'),
    dead: countOf(rows, 'dead'),
    highest: peaks,
    recoveredMs: recoveryMs(runs, faultAt, overAt),
    restMs: (restAt - overAt) / 1000,
    problems: [
      ...problems,
      ...left.map((what) => `not at rest: ${what}`),
      ...(rows.length === ended ? [] : [`${rows.length} accepted, ${ended} ended`]),
      ...shortened(journal.problems),
      ...(isWitnessed ? shortened(compareRuns(rows, runs)) : []),
      ...shortened(peaks.problems),
    ],
    notes: shortened(journal.notes),
  };
};
