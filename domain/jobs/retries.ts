import type { Queryable } from '#lib/control-db.ts';
import type { JobError, JobRef } from '#queues/define.ts';
import { type Part, inPart } from './part.ts';

/** A run that ended without an end of its job. */
export interface BrokenRun {
  readonly id: string;
  readonly runId: string;
  readonly error: JobError;
}

/** The attempt is kept, its job waits again; answers who was still ours to put back. */
const putBack = (change: string) => `
  with broken as (
    select j.id, j.attempt, j.worker_id, j.started_at from jobs j
    where j.id = $1 and j.run_id = $2 and j.status = 'running' for update
  ), kept as (
    insert into job_attempts (job_id, attempt, worker_id, started_at, error_code, error_message)
    select id, attempt, worker_id, started_at, $3, $4 from broken
  )
  update jobs set status = 'queued', ${change} from broken where jobs.id = broken.id returning jobs.id`;

/** Lets a failed attempt be followed by another. False when the job was not running under this run any more. */
export const retryLater = async (db: Queryable, run: BrokenRun, delayMs: number): Promise<boolean> => {
  const rows = await db.query(
    putBack(`next_run_at = now() + make_interval(secs => $5)`),
    [run.id, run.runId, run.error.code, run.error.message, delayMs / 1000],
    'retry-job',
  );
  return rows.length > 0;
};

/** Hands a job back that a stopping worker could not finish, as if it had not been started. */
export const handBack = async (db: Queryable, run: Pick<BrokenRun, 'id' | 'runId'>): Promise<boolean> => {
  const rows = await db.query(
    `update jobs set status = 'queued', attempt = greatest(0, attempt - 1), run_id = null, started_at = null
     where id = $1 and run_id = $2 and status = 'running' returning id`,
    [run.id, run.runId],
  );
  return rows.length > 0;
};

/** Puts a job back that waits for an answer; it runs again after `maxMs` unless it is resumed before. */
export const parkJob = async (db: Queryable, run: Pick<BrokenRun, 'id' | 'runId'>, maxMs: number): Promise<boolean> => {
  const rows = await db.query(
    `update jobs set status = 'queued', run_id = null, next_run_at = now() + make_interval(secs => $3)
     where id = $1 and run_id = $2 and status = 'running' returning id`,
    [run.id, run.runId, maxMs / 1000],
    'park-job',
  );
  return rows.length > 0;
};

export interface Resumption {
  readonly delayMs: number;
  /** Whether the run that was parked counts as an attempt. */
  readonly counts: boolean;
}

/** Lets a parked job run. */
export const resumeJob = async (db: Queryable, id: string, { delayMs, counts }: Resumption): Promise<boolean> => {
  const rows = await db.query(
    `update jobs set next_run_at = now() + make_interval(secs => $2),
       attempt = case when $3 then attempt else greatest(0, attempt - 1) end
     where id = $1 and status = 'queued' and next_run_at is not null returning id`,
    [id, delayMs / 1000, counts],
    'resume-job',
  );
  return rows.length > 0;
};

/** Queues a job again whose worker died. */
export const restartCrashed = async (db: Queryable, run: BrokenRun): Promise<boolean> => {
  const rows = await db.query(putBack('crashes = crashes + 1, next_run_at = null'), [
    run.id,
    run.runId,
    run.error.code,
    run.error.message,
  ]);
  return rows.length > 0;
};

/** Retries whose time has come, as jobs that may be admitted. */
export const takeDue = async (
  db: Queryable,
  { type, part, max }: { readonly type: string; readonly part: Part; readonly max: number },
): Promise<JobRef[]> => {
  const rows = await db.query<{ id: string; project_id: string }>(
    `update jobs set next_run_at = null where id in (
       select id from jobs where type = $1 and status = 'queued' and next_run_at <= now() and ${inPart('$3', '$4')}
       order by next_run_at limit $2 for update skip locked)
     returning id, project_id`,
    [type, max, part.count, part.index],
    'take-due-jobs',
  );
  return rows.map((row) => ({ id: row.id, type, projectId: row.project_id }));
};
