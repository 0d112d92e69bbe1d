import type { Queryable } from '#lib/control-db.ts';

/** Which of these jobs were begun, so that something may have been sent; one that is gone may have been, too. */
export const startedJobs = async (db: Queryable, jobIds: readonly string[]): Promise<ReadonlySet<string>> => {
  if (jobIds.length === 0) return new Set();
  const waited = await db.query<{ id: string }>('select id from jobs where id = any ($1::uuid[]) and attempt = 0', [
    jobIds,
  ]);
  const untouched = new Set(waited.map(({ id }) => id));
  return new Set(jobIds.filter((id) => !untouched.has(id)));
};
