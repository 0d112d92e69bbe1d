// Ids are in the order of acceptance; a job that was run again kept its old one and waits since then.
const oldestAmong = 100;

/**
 * SQL: since when the job of this type has waited that waits longest; null when none does. Reads a few entries of an
 * index. Looked for among jobs that were not begun: a retry is older than its wait.
 * @param type SQL that names the type
 */
export const waitingSince = (type: string): string => `(
  select min(queued_at) from (
    select queued_at from jobs where type = ${type} and status = 'queued' and next_run_at is null and attempt = 0
    order by id limit ${oldestAmong}
  ) earliest)`;
