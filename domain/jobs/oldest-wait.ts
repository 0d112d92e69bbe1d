/**
 * SQL: since when the job of this type has waited that waits longest; null when none does. Looked for among jobs that were
 * not begun: a retry is older than its wait. Three buffers, by the first entry of the index `jobs_never_begun`.
 * @param type SQL that names the type
 */
export const waitingSince = (type: string): string => `(
  select queued_at from jobs
  where type = ${type} and status = 'queued' and next_run_at is null and attempt = 0
  order by queued_at limit 1)`;
