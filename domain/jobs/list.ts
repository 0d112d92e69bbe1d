import { type Queryable, one } from '#lib/control-db.ts';
import { type JobRow, type JobStatus, jobColumns } from './store.ts';

export interface JobListFilter {
  readonly status?: JobStatus | undefined;
  readonly type?: string | undefined;
  readonly limit: number;
  readonly offset: number;
}

/** Longer results are left out of a list: two hundred whole ones would be a gigabyte. */
export const maxListedResultLength = 16 * 1024;
/** A busy project keeps millions of rows; counting them all for each page would cost seconds. */
const maxCounted = 100_000;

const listedColumns = jobColumns.replace(
  ' result,',
  ` case when octet_length(result) <= ${maxListedResultLength} then result end as result,`,
);

// Unnamed statements are planned for their values: a null takes its condition out of the plan.
const those = `from jobs
  where project_id = $1 and ($2::text is null or status = $2) and ($3::text is null or type = $3)`;

/** A project's jobs, newest first, and how many there are, counted up to 100,000. */
export const listJobs = async (
  db: Queryable,
  projectId: string,
  { status, type, limit, offset }: JobListFilter,
): Promise<{ jobs: JobRow[]; total: number }> => {
  const which = [projectId, status ?? null, type ?? null];
  const [jobs, { total }] = await Promise.all([
    db.query<JobRow>(`select ${listedColumns} ${those} order by created_at desc, id desc limit $4 offset $5`, [
      ...which,
      limit,
      offset,
    ]),
    one(
      db.query<{ total: number }>(`select count(*) as total from (select ${those} limit ${maxCounted}) counted`, which),
    ),
  ]);
  return { jobs, total };
};
