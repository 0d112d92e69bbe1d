import type { Queryable } from '#lib/control-db.ts';

const usualMs = 24 * 3600 * 1000;

interface Claim {
  readonly id: string;
  /** How long it keeps others away. Left out: a day. */
  readonly forMs: number | undefined;
}

/**
 * Claims unique keys for new jobs, in the transaction that inserts them. Whoever comes second at the same moment waits
 * for the end of the first one's transaction. All claim in one order, so that no two wait for each other.
 * @param claims by key
 * @returns the job that has each key
 */
export const claimUniqueKeys = async (
  db: Queryable,
  functionId: string,
  claims: ReadonlyMap<string, Claim>,
): Promise<ReadonlyMap<string, string>> => {
  const keys = [...claims.keys()];
  const own = [...claims.values()];
  const claimed = await db.query<{ key: string; job_id: string }>(
    `insert into job_unique_keys as u (function_id, key, job_id, expires_at)
     select $1, key, job_id, now() + make_interval(secs => for_ms / 1000)
     from unnest($2::text[], $3::uuid[], $4::float8[]) as claim (key, job_id, for_ms) order by key
     on conflict (function_id, key) do update set job_id = excluded.job_id, expires_at = excluded.expires_at
       where u.expires_at <= now()
     returning key, job_id`,
    [functionId, keys, own.map(({ id }) => id), own.map(({ forMs }) => forMs ?? usualMs)],
    'claim-unique-keys',
  );
  const winners = new Map(claimed.map(({ key, job_id: jobId }) => [key, jobId]));
  const lost = keys.filter((key) => !winners.has(key));
  if (lost.length === 0) return winners;
  // A statement of its own sees those that were committed while the first one waited.
  const kept = await db.query<{ key: string; job_id: string }>(
    'select key, job_id from job_unique_keys where function_id = $1 and key = any ($2::text[])',
    [functionId, lost],
    'kept-unique-keys',
  );
  for (const { key, job_id: jobId } of kept) winners.set(key, jobId);
  return winners;
};

/** Keys that keep nobody away any more, some at a time. */
export const sweepUniqueKeys = async (db: Queryable, max: number): Promise<number> => {
  const gone = await db.query(
    `delete from job_unique_keys where (function_id, key) in (
       select function_id, key from job_unique_keys where expires_at < now() order by expires_at limit $1
       for update skip locked) returning key`,
    [max],
  );
  return gone.length;
};
