import type { Queryable } from '#lib/control-db.ts';
import type { NewJobRow } from './store.ts';

/** A job that stands for all of its function with the same key. */
export interface Debounced {
  readonly key: string;
  readonly row: NewJobRow;
}

/**
 * Gives the payloads of new jobs to those that wait with the same key, and lets them wait anew. Until the transaction
 * ends nobody else enqueues jobs of the function, so that no key has two.
 * @returns the job that waits, by key; keys that are left out have none yet
 */
export const replaceDebounced = async (
  db: Queryable,
  functionId: string,
  jobs: readonly Debounced[],
): Promise<ReadonlyMap<string, string>> => {
  await db.query(
    `select pg_advisory_xact_lock(hashtextextended('debounce of function ' || $1, 0))`,
    [functionId],
    'lock-debounce',
  );
  const rows = await db.query<{ id: string; key: string }>(
    `update jobs set data = latest.data, request_id = latest.request_id,
       next_run_at = greatest(now() + make_interval(secs => latest.ms / 1000), latest.run_at,
         now() + make_interval(secs => latest.delay_ms / 1000)),
       queued_at = greatest(now() + make_interval(secs => latest.ms / 1000), latest.run_at,
         now() + make_interval(secs => latest.delay_ms / 1000))
     from unnest($2::text[], $3::text[], $4::text[], $5::float8[], $6::float8[], $7::timestamptz[])
       as latest (key, data, request_id, ms, delay_ms, run_at)
     where flow_of = $1 and debounce_key = latest.key and status = 'queued'
     returning id, debounce_key as key`,
    [
      functionId,
      jobs.map(({ key }) => key),
      jobs.map(({ row }) => row.data),
      jobs.map(({ row }) => row.requestId),
      jobs.map(({ row }) => row.options?.debounce_ms ?? 0),
      jobs.map(({ row }) => row.options?.delay_ms ?? null),
      jobs.map(({ row }) => row.options?.run_at ?? null),
    ],
    'replace-debounced',
  );
  return new Map(rows.map(({ id, key }) => [key, id]));
};
