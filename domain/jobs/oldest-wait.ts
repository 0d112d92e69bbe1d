/**
 * SQL: the time since which the longest-waiting job of this type has waited; null when none waits. Only jobs that were
 * never started count: a retry is older than its wait. Three buffers, by the first entry of the index
 * `jobs_never_begun`.
 * @param type SQL that names the type
 */
export const waitingSince = (type: string): string => `(
  select queued_at from jobs
  where type = ${type} and status = 'queued' and next_run_at is null and attempt = 0
  order by queued_at limit 1)`;
