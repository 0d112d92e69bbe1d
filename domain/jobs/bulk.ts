import type { ControlDb } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { type JobFilter, bounded, filterSize, filterSql, filterValues } from './filter.ts';
import type { Jobs } from './jobs.ts';
import type { JobStatus } from './store.ts';

export type BulkAction = 'retry' | 'cancel';

/** In which states a job can be retried, or cancelled. */
export const bulkStatuses = {
  retry: ['failed', 'dead', 'cancelled', 'expired'],
  cancel: ['queued', 'running', 'waiting'],
} as const satisfies Record<BulkAction, readonly JobStatus[]>;

interface BulkResult {
  /** Jobs of the filter that can be changed, counted up to 100,000, before any was. */
  readonly matched: number;
  readonly changed: number;
}

const maxCounted = 100_000;
/** Cancelling so many waiting jobs locks their rows for some 40 ms. */
const batchSize = 200;
const together = 8;
/** A call answers within this time, whatever is left; proxies end calls that take much longer. */
const maxMs = 20_000;

interface Match {
  readonly id: string;
  readonly project_id: string;
}

type Steering = Pick<Jobs, 'retry' | 'cancel' | 'cancelAllWaiting'>;

/** Whether it was changed: somebody else may have been faster. */
const changeOne = async (
  jobs: Steering,
  action: BulkAction,
  { id, project_id: projectId }: Match,
): Promise<boolean> => {
  try {
    await jobs[action](projectId, id);
    return true;
  } catch (error) {
    if (error instanceof ServiceError && (error.code === 'conflict' || error.code === 'not_found')) return false;
    throw error;
  }
};

const changeOneByOne = async (jobs: Steering, action: BulkAction, batch: readonly Match[]): Promise<number> => {
  let changed = 0;
  for (let i = 0; i < batch.length; i += together) {
    const done = await Promise.all(batch.slice(i, i + together).map((job) => changeOne(jobs, action, job)));
    changed += done.filter(Boolean).length;
  }
  return changed;
};

/** A flood waits: one statement ends all of a batch that do. The few that run are stopped one by one. */
const changeBatch = async (jobs: Steering, action: BulkAction, batch: readonly Match[]): Promise<number> => {
  if (action === 'retry') return changeOneByOne(jobs, action, batch);
  const ended = await jobs.cancelAllWaiting(batch.map(({ id }) => id));
  const others = batch.filter(({ id }) => !ended.has(id));
  return ended.size + (await changeOneByOne(jobs, action, others));
};

const beginning = '00000000-0000-0000-0000-000000000000';

const nextBatch = (db: ControlDb, filter: JobFilter, after: string): Promise<Match[]> =>
  bounded(db, (tx) =>
    tx.query<Match>(
      `select j.id, j.project_id from jobs j where ${filterSql} and j.id > $${filterSize + 1}
       order by j.id limit ${batchSize}`,
      [...filterValues(filter), after],
    ),
  );

const countMatches = (db: ControlDb, filter: JobFilter): Promise<number> =>
  bounded(db, async (tx) => {
    const [row] = await tx.query<{ count: number }>(
      `select count(*)::int as count from (select from jobs j where ${filterSql} limit ${maxCounted}) found`,
      filterValues(filter),
    );
    return row?.count ?? 0;
  });

interface BulkOrder {
  readonly action: BulkAction;
  readonly filter: JobFilter;
  readonly dryRun: boolean;
}

/**
 * Retries or cancels the jobs of a filter, the oldest first, in batches of 200 and for at most 20 s: a caller calls
 * again while `changed` is less than `matched`.
 * @throws {ServiceError} `validation_failed` when the filter looks at too many jobs
 */
export const changeInBulk = async (
  db: ControlDb,
  jobs: Steering,
  { action, filter, dryRun }: BulkOrder,
): Promise<BulkResult> => {
  const which = { ...filter, statuses: filter.statuses ?? bulkStatuses[action] };
  const matched = await countMatches(db, which);
  if (dryRun) return { matched, changed: 0 };
  const until = performance.now() + maxMs;
  let changed = 0;
  for (let after = beginning; performance.now() < until;) {
    const batch = await nextBatch(db, which, after);
    changed += await changeBatch(jobs, action, batch);
    if (batch.length < batchSize) break;
    after = batch.at(-1)?.id ?? after;
  }
  return { matched, changed };
};
