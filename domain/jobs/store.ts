import { type Queryable, maybeOne } from '#lib/control-db.ts';
import type { JobError, JobOutcome } from '#queues/define.ts';

export type JobStatus = 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled' | 'expired' | 'dead';

export interface NewJobRow {
  readonly id: string;
  readonly projectId: string;
  readonly type: string;
  /** JSON text. */
  readonly data: string;
  readonly maxAttempts: number;
  readonly requestId: string;
}

export interface JobRow {
  readonly id: string;
  readonly project_id: string;
  readonly type: string;
  readonly status: JobStatus;
  readonly result: string | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
  readonly progress: number | null;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly request_id: string;
  readonly created_at: Date;
  readonly started_at: Date | null;
  readonly finished_at: Date | null;
}

/** One statement for any number of jobs. */
export const insertJobs = async (db: Queryable, jobs: readonly NewJobRow[]): Promise<void> => {
  await db.query(
    `insert into jobs (id, project_id, type, status, data, max_attempts, request_id)
     select id, project_id, type, 'queued', data, max_attempts, request_id
     from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::int[], $6::text[])
       as new (id, project_id, type, data, max_attempts, request_id)`,
    [
      jobs.map((job) => job.id),
      jobs.map((job) => job.projectId),
      jobs.map((job) => job.type),
      jobs.map((job) => job.data),
      jobs.map((job) => job.maxAttempts),
      jobs.map((job) => job.requestId),
    ],
    'insert-jobs',
  );
};

/** Takes back a job that never reached the queue. False when it did reach a worker, or was never there. */
export const deleteQueuedJob = async (db: Queryable, id: string): Promise<boolean> => {
  const gone = await db.query(`delete from jobs where id = $1 and status = 'queued' returning id`, [id]);
  return gone.length > 0;
};

/** What a project's jobs were given and answered goes with the project. */
export const deleteJobsOf = async (db: Queryable, projectId: string): Promise<void> => {
  await db.query('delete from jobs where project_id = $1', [projectId]);
};

export const findJob = (db: Queryable, projectId: string, id: string): Promise<JobRow | undefined> =>
  maybeOne(
    db.query<JobRow>(
      `select id, project_id, type, status, result, error_code, error_message, progress, attempt, max_attempts, request_id,
         created_at, started_at, finished_at
       from jobs where project_id = $1 and id = $2`,
      [projectId, id],
      'find-job',
    ),
  );

export interface WaitingJob {
  readonly id: string;
  readonly project_id: string;
  readonly type: string;
  readonly request_id: string;
  /** Null when it is longer than `inlineLength`. */
  readonly data: string | null;
}

/** Jobs that have been waiting for a while, the oldest first. */
export const jobsWaitingLong = (
  db: Queryable,
  { seconds, limit, inlineLength }: { readonly seconds: number; readonly limit: number; readonly inlineLength: number },
): Promise<WaitingJob[]> =>
  db.query<WaitingJob>(
    `select id, project_id, type, request_id, case when length(data) <= $3 then data end as data from jobs
     where status = 'queued' and created_at < now() - make_interval(secs => $1) order by created_at limit $2`,
    [seconds, limit, inlineLength],
  );

/** How a job ended; null while it has not, or when it was never there. */
export const findEnd = async (db: Queryable, id: string): Promise<JobOutcome | null> => {
  const row = await maybeOne(
    db.query<Pick<JobRow, 'result' | 'error_code' | 'error_message'> & Pick<JobOutcome, 'status'>>(
      `select status, result, error_code, error_message from jobs
       where id = $1 and status in ('succeeded', 'failed', 'dead')`,
      [id],
    ),
  );
  return row === undefined ? null : { status: row.status, result: row.result, error: errorOf(row) };
};

export const errorOf = (row: Pick<JobRow, 'error_code' | 'error_message'>): JobError | null =>
  row.error_code === null ? null : { code: row.error_code, message: row.error_message ?? '' };

export interface JobStart {
  readonly id: string;
  /** Names this start, so that recording it twice counts once. */
  readonly runId: string;
  /** Asks for the job's data, which is too large to lie in its message. */
  readonly withData: boolean;
}

export interface BegunJob {
  readonly id: string;
  /** How often workers have begun it, this time included. */
  readonly attempt: number;
  readonly data: string | null;
}

/** Begins jobs. One that was taken back or has ended is not among the answers. */
export const beginJobs = (db: Queryable, starts: readonly JobStart[]): Promise<BegunJob[]> =>
  db.query<BegunJob>(
    `update jobs set status = 'running', run_id = started.run_id, started_at = coalesce(jobs.started_at, now()),
       attempt = jobs.attempt + (jobs.run_id is distinct from started.run_id)::int
     from unnest($1::uuid[], $2::uuid[], $3::boolean[]) as started (id, run_id, with_data)
     where jobs.id = started.id and jobs.status in ('queued', 'running')
     returning jobs.id, jobs.attempt, case when started.with_data then jobs.data end as data`,
    [starts.map((s) => s.id), starts.map((s) => s.runId), starts.map((s) => s.withData)],
    'begin-jobs',
  );

export interface JobEnd {
  readonly id: string;
  readonly attempt: number;
  /** By the worker's clock; never recorded as before the start. */
  readonly finishedAt: Date;
  readonly outcome: JobOutcome;
}

/** Records ends. A job that has ended stays as it is: whatever is delivered twice is recorded once. */
export const recordEnds = async (db: Queryable, ends: readonly JobEnd[]): Promise<void> => {
  await db.query(
    `update jobs set status = ended.status, result = ended.result, error_code = ended.error_code,
       error_message = ended.error_message, attempt = ended.attempt,
       finished_at = greatest(jobs.started_at, ended.finished_at)
     from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::timestamptz[])
       as ended (id, status, result, error_code, error_message, attempt, finished_at)
     where jobs.id = ended.id and jobs.status in ('queued', 'running')`,
    [
      ends.map((e) => e.id),
      ends.map((e) => e.outcome.status),
      ends.map((e) => e.outcome.result),
      ends.map((e) => e.outcome.error?.code ?? null),
      ends.map((e) => e.outcome.error?.message ?? null),
      ends.map((e) => e.attempt),
      ends.map((e) => e.finishedAt),
    ],
    'record-job-ends',
  );
};
