import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { firstIdAt } from '#lib/ids.ts';
import type { JobError, JobRef } from '#queues/define.ts';
import { type Part, inPart } from './queue-shards.ts';
import { storedBytesOf } from './steps.ts';
import { type JobRow, jobColumns } from './store.ts';

const dayMs = 24 * 3600 * 1000;

/** A job with the reply stream of its waiting caller. */
export type Changed = JobRow & { readonly reply_to: string | null };

const cancelledWaiting = `status = 'cancelled', finished_at = now(), next_run_at = null,
  error_code = 'cancelled', error_message = 'The job was cancelled before it ran.'`;

/** Ends a job that waits. Undefined when it does not wait. */
export const cancelWaiting = (db: Queryable, projectId: string, id: string): Promise<Changed | undefined> =>
  maybeOne(
    db.query<Changed>(
      `update jobs set ${cancelledWaiting}
       where project_id = $1 and id = $2 and status in ('queued', 'waiting') and batch_id is null
       returning ${jobColumns}, reply_to`,
      [projectId, id],
    ),
  );

/** Ends those of some jobs that wait. Jobs that somebody else is just changing are left out. */
export const cancelAllWaiting = (db: Queryable, ids: readonly string[]): Promise<Changed[]> =>
  db.query<Changed>(
    `with batch (job_id) as materialized (
       select id from jobs where id = any ($1) and status in ('queued', 'waiting') and batch_id is null
       order by id for no key update skip locked)
     update jobs set ${cancelledWaiting} from batch where id = job_id returning ${jobColumns}, reply_to`,
    [ids],
  );

/** Notes the request to stop a job that runs. Undefined when it does not run. */
export const markCancelRequested = (db: Queryable, projectId: string, id: string): Promise<JobRow | undefined> =>
  maybeOne(
    db.query<JobRow>(
      `update jobs set cancel_requested_at = coalesce(cancel_requested_at, now())
       where project_id = $1 and id = $2 and status = 'running' returning ${jobColumns}`,
      [projectId, id],
    ),
  );

/**
 * Queues a job again that ended without success, as if it had never run, but for the results of its steps: those before
 * `fromStep` are kept, all when it is null. Undefined when it did not end so.
 */
export const revive = (
  db: Queryable,
  projectId: string,
  id: string,
  fromStep: string | null = null,
): Promise<JobRow | undefined> =>
  maybeOne(
    db.query<JobRow>(
      `with revived as materialized (
         select id from jobs
         where project_id = $1 and id = $2 and status in ('failed', 'dead', 'cancelled', 'expired') for update
       ), forgotten as (
         delete from job_log_parts where job_id in (select id from revived)
       ), kept as materialized (
         select name, ${storedBytesOf('s')} as bytes from job_steps s
         where job_id in (select id from revived) and status = 'succeeded' and not exists (
           select from job_steps f where f.job_id = s.job_id and f.name = $3
             and (s.started_at, s.name) >= (f.started_at, f.name))
       ), forgotten_steps as (
         delete from job_steps where job_id in (select id from revived) and name not in (select name from kept)
       )
       update jobs set status = 'queued', attempt = 0, crashes = 0, run_id = null, worker_id = null, result = null,
         error_code = null, error_message = null, progress = null, started_at = null, finished_at = null,
         next_run_at = case when concurrency_key is null and flow_of is null then null else 'infinity'::timestamptz end,
         slot_at = null, debounce_key = null, batch_id = null, cancel_requested_at = null, reply_to = null,
         queued_at = now(), expires_at = null, step_wait = null,
         step_bytes = (select coalesce(sum(bytes), 0) from kept)
       where id in (select id from revived)
       returning ${jobColumns}`,
      [projectId, id, fromStep],
    ),
  );

/** Ends jobs that waited too long, some at a time. A job that waits so long was accepted at least as long ago. */
export const expireWaiting = (
  db: Queryable,
  { types, days, max }: { readonly types: readonly string[]; readonly days: number; readonly max: number },
): Promise<Changed[]> =>
  db.query<Changed>(
    `update jobs set status = 'expired', finished_at = now(), next_run_at = null,
       error_code = 'expired', error_message = 'The job waited too long.'
     where id in (
       select id from jobs where type = any($3::text[]) and status = 'queued' and id < $4
         and queued_at < now() - make_interval(days => $1)
       limit $2 for update skip locked)
     returning ${jobColumns}, reply_to`,
    [days, max, types, firstIdAt(Date.now() - (days - 1) * dayMs)],
  );

const late = `status = 'expired', finished_at = now(), next_run_at = null,
  error_code = 'expired', error_message = 'The job did not begin within the time that it was given.'`;

/** SQL: the job may not begin any more. An attempt that follows another one may. */
const isLate = `status = 'queued' and attempt = 0 and expires_at <= now()`;

/** Ends jobs that did not begin in time, some at a time. */
export const expireLate = (db: Queryable, max: number): Promise<Changed[]> =>
  db.query<Changed>(
    `update jobs set ${late} where id in (
       select id from jobs where ${isLate} order by expires_at limit $1 for update skip locked)
     returning ${jobColumns}, reply_to`,
    [max],
    'expire-late',
  );

/** Ends one waiting job when it is late. Undefined for any other job. */
export const expireIfLate = (db: Queryable, id: string): Promise<Changed | undefined> =>
  maybeOne(
    db.query<Changed>(`update jobs set ${late} where id = $1 and ${isLate} returning ${jobColumns}, reply_to`, [id]),
  );

/** Deletes what is kept no longer, some at a time. Answers how many. */
export const deleteOld = async (
  db: Queryable,
  keep: { readonly succeededHours: number; readonly failedDays: number; readonly max: number },
): Promise<number> => {
  const gone = await db.query(
    `delete from jobs where id in (
       select old.id from (
         values ('succeeded', now() - make_interval(hours => $1)), ('failed', now() - make_interval(days => $2)),
           ('dead', now() - make_interval(days => $2)), ('cancelled', now() - make_interval(days => $2)),
           ('expired', now() - make_interval(days => $2))) as kept (status, since)
       cross join lateral (
         select id from jobs where jobs.status = kept.status and finished_at < kept.since
         limit $3 for update skip locked) old
       limit $3)
     returning id`,
    [keep.succeededHours, keep.failedDays, keep.max],
  );
  return gone.length;
};

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

/**
 * Lets an attempt that failed by user code be followed by another, as the job's retry policy has it. The attempt has a
 * record of its own, which a trigger makes of the report. False as above.
 * @param report `crashed`: its worker died without one
 */
export const retryByPolicy = async (
  db: Queryable,
  run: BrokenRun & { readonly report: string | null },
  delayMs: number,
): Promise<boolean> => {
  const rows = await db.query(
    putBack(`report = case when jobs.type = 'function.invoke' then $6 end, error_code = $3, error_message = $4, next_run_at = now() + make_interval(secs => $5),
      queued_at = now() + make_interval(secs => $5), cancel_requested_at = null`),
    [run.id, run.runId, run.error.code, run.error.message, delayMs / 1000, run.report],
    'retry-by-policy',
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

/** A job whose time has come. */
export interface DueJob extends JobRef {
  /** The concurrency key of which it needs a place first; null: none. */
  readonly key: string | null;
  /** Whether its function says when it may start. */
  readonly held: boolean;
}

// A slot is the time of one start: another attempt, or a job that comes after a delay, needs one of its own. A run that
// slept goes on, which is no start.
const needsSlot = `status = 'queued' and flow_of is not null and slot_at is distinct from next_run_at`;

interface Due {
  readonly type: string;
  readonly part: Part;
  readonly max: number;
  /** Projects whose jobs are left for another time. */
  readonly except?: readonly string[];
}

/** Jobs whose time has come: delayed ones, retries, and runs that slept. At most `max` of those that sleep, and of the others. */
export const takeDue = async (db: Queryable, { type, part, max, except = [] }: Due): Promise<DueJob[]> => {
  const rows = await db.query<{
    id: string;
    project_id: string;
    priority: number;
    awaited: boolean;
    key: string | null;
    held: boolean;
  }>(
    `update jobs set status = 'queued',
       next_run_at = case when concurrency_key is null and not (${needsSlot}) then null else 'infinity'::timestamptz end,
       slot_at = case when ${needsSlot} then null when status = 'waiting' and flow_of is not null then now()
         else slot_at end,
       debounce_key = null
     where id in (
       select id from (
         select id from jobs where type = $1 and status = 'queued' and next_run_at <= now() and ${inPart('$3', '$4')}
           and project_id <> all ($5::uuid[])
         order by next_run_at limit $2 for update skip locked) as queued
       union all
       select id from (
         select id from jobs where type = $1 and status = 'waiting' and next_run_at <= now() and ${inPart('$3', '$4')}
           and project_id <> all ($5::uuid[])
         order by next_run_at limit $2 for update skip locked) as asleep)
     returning id, project_id, priority, reply_to is not null as awaited, concurrency_key as key,
       flow_of is not null and slot_at is null as held`,
    [type, max, part.count, part.index, except],
    'take-due-jobs',
  );
  return rows.map((row) => ({
    id: row.id,
    type,
    projectId: row.project_id,
    priority: row.priority,
    awaited: row.awaited,
    key: row.key,
    held: row.held,
  }));
};
