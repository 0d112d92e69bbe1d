import { type ControlDb, one } from '#lib/control-db.ts';
import { type JobFilter, bounded, filterSize, filterSql, filterValues } from './filter.ts';
import { type JobRow, listedColumns } from './store.ts';

/** A busy project keeps millions of rows; counting them all for each page would cost seconds. */
const maxCounted = 100_000;

interface JobPage {
  readonly limit: number;
  readonly offset: number;
}

/**
 * The jobs of a project that a filter names, newest first, and how many there are, counted up to 100,000.
 * @throws {ServiceError} `validation_failed` when the search looks at too many jobs
 */
export const listJobs = (
  db: ControlDb,
  projectId: string,
  filter: Omit<JobFilter, 'projectIds'>,
  { limit, offset }: JobPage,
): Promise<{ jobs: JobRow[]; total: number }> =>
  bounded(db, async (tx) => {
    const values = filterValues({ ...filter, projectIds: [projectId] });
    const jobs = await tx.query<JobRow>(
      `select ${listedColumns} from jobs j where ${filterSql}
       order by j.created_at desc, j.id desc limit $${filterSize + 1} offset $${filterSize + 2}`,
      [...values, limit, offset],
    );
    const { total } = await one(
      tx.query<{ total: number }>(
        `select count(*) as total from (select from jobs j where ${filterSql} limit ${maxCounted}) counted`,
        values,
      ),
    );
    return { jobs, total };
  });
