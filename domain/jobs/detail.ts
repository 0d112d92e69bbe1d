import { type ControlDb, type Queryable, one } from '#lib/control-db.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { bounded, functionOf } from './filter.ts';
import type { JobStatus } from './store.ts';

/** An attempt that another one followed; the latest is in the job itself. */
interface Attempt {
  readonly attempt: number;
  readonly started_at: Date | null;
  readonly ended_at: Date;
  readonly error_code: string;
  readonly error_message: string;
}

/** The part of a job that is shown on its own page only. */
interface JobDetail {
  /** The latest 50, the oldest first. */
  readonly attempts: readonly Attempt[];
  /** Null: it runs no function. */
  readonly function_id: string | null;
  /** JSON text of what its function is called with; null also where it is long. */
  readonly payload: string | null;
}

const maxAttempts = 50;
/** Longer payloads are not shown. */
export const maxShownPayload = 64 * 1024;

/** The payload is JSON text within the JSON of the data. It may hold what PostgreSQL's own JSON cannot, such as NUL. */
const payloadOf = (data: string | null): string | null => {
  const { payload } = JSON.parse(data ?? '{}') as { payload?: unknown };
  return typeof payload === 'string' ? payload : null;
};

export const jobDetail = async (db: Queryable, id: string): Promise<JobDetail> => {
  const [attempts, [row]] = await Promise.all([
    db.query<Attempt>(
      `select attempt, started_at, ended_at, error_code, error_message from (
         select * from job_attempts where job_id = $1 order by id desc limit ${maxAttempts}) latest order by id`,
      [id],
    ),
    db.query<{ function_id: string | null; data: string | null }>(
      `select ${functionOf('j')} as function_id, case when j.type = '${functionInvoke.type}'
         and octet_length(j.data) <= ${maxShownPayload} then j.data end as data from jobs j where j.id = $1`,
      [id],
    ),
  ]);
  return { attempts, function_id: row?.function_id ?? null, payload: payloadOf(row?.data ?? null) };
};

/** A busy project keeps millions of rows. */
export const maxCountedJobs = 100_000;

const open = ['queued', 'running', 'waiting'] as const satisfies readonly JobStatus[];

// Jobs that have not ended are counted within their own indexes, whatever their age; the others from the newest back by
// jobs_project.
const countSql = `
  with latest as materialized (
    select status from jobs where project_id = $1 and created_at >= $2
      and ($3::text is null or type = $3) order by created_at desc limit ${maxCountedJobs}
  )
  select json_build_object(${open
    .map(
      (status) => `'${status}', (select count(*) from (select from jobs where project_id = $1 and status = '${status}'
        and ($3::text is null or type = $3) limit ${maxCountedJobs}) ${status})`,
    )
    .join(', ')})::jsonb
    || coalesce((select jsonb_object_agg(status, count) from (
      select status, count(*) from latest where status <> all ('{${open.join(',')}}') group by status) ended), '{}')
    as counts,
    (select count(*) = ${maxCountedJobs} from latest) as is_capped`;

/** Jobs by their status. */
export interface JobCounts {
  readonly counts: Readonly<Partial<Record<JobStatus, number>>>;
  /** Only the latest 100,000 of the time were counted. */
  readonly is_capped: boolean;
}

/**
 * Jobs that have not ended, and those of a time that have, by their status.
 * @throws {ServiceError} `validation_failed` when counting takes longer than three seconds
 */
export const countJobs = (
  db: ControlDb,
  projectId: string,
  { since, type }: { readonly since: Date; readonly type: string | undefined },
): Promise<JobCounts> => bounded(db, (tx) => one(tx.query<JobCounts>(countSql, [projectId, since, type ?? null])));
