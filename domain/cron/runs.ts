import type { JobStatus } from '#domain/jobs/store.ts';
import { type Queryable, one } from '#lib/control-db.ts';

export interface NewRun {
  readonly id: string;
  readonly scheduleId: string;
  readonly fireAt: Date;
  readonly trigger: 'schedule' | 'manual';
  readonly jobId: string | null;
  readonly status: 'waiting' | 'started' | 'skipped' | 'failed';
  readonly reason: string | null;
  /** Left out: none. */
  readonly deadlineAt?: Date | null;
}

/**
 * Writes runs in one statement.
 * @returns the ids of those that are new: a fire that is there already stays as it is
 */
export const insertRuns = async (db: Queryable, runs: readonly NewRun[]): Promise<ReadonlySet<string>> => {
  const rows = await db.query<{ id: string }>(
    `insert into schedule_runs (id, schedule_id, fire_at, trigger, job_id, status, reason, deadline_at)
     select * from unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::uuid[], $6::text[], $7::text[],
       $8::timestamptz[])
     on conflict do nothing returning id`,
    [
      runs.map((run) => run.id),
      runs.map((run) => run.scheduleId),
      runs.map((run) => run.fireAt),
      runs.map((run) => run.trigger),
      runs.map((run) => run.jobId),
      runs.map((run) => run.status),
      runs.map((run) => run.reason),
      runs.map((run) => run.deadlineAt ?? null),
    ],
    'insert-runs',
  );
  return new Set(rows.map(({ id }) => id));
};

interface WaitingRun {
  readonly id: string;
  readonly schedule_id: string;
  readonly fire_at: Date;
}

/** The run of each schedule that has waited longest. */
export const oldestWaiting = (db: Queryable, scheduleIds: readonly string[]): Promise<WaitingRun[]> =>
  db.query<WaitingRun>(
    `select distinct on (schedule_id) id, schedule_id, fire_at from schedule_runs
     where status = 'waiting' and schedule_id = any ($1::uuid[]) order by schedule_id, fire_at`,
    [scheduleIds],
    'oldest-waiting',
  );

export interface RunChange {
  readonly id: string;
  readonly jobId: string | null;
  readonly status: NewRun['status'];
  readonly reason: string | null;
}

/** Ends the wait of runs. */
export const changeWaiting = async (db: Queryable, changes: readonly RunChange[]): Promise<void> => {
  await db.query(
    `update schedule_runs r set job_id = changed.job_id, status = changed.status, reason = changed.reason
     from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[]) as changed (id, job_id, status, reason)
     where r.id = changed.id and r.status = 'waiting'`,
    [
      changes.map((change) => change.id),
      changes.map((change) => change.jobId),
      changes.map((change) => change.status),
      changes.map((change) => change.reason),
    ],
    'change-waiting',
  );
};

/** Runs whose jobs were not accepted. */
export const failRuns = async (
  db: Queryable,
  jobIds: readonly string[],
  { code, message }: { readonly code: string; readonly message: string },
): Promise<void> => {
  await db.query(
    `update schedule_runs set status = 'failed', job_id = null, reason = $3, error_code = $2, error_message = $3
     where job_id = any ($1::uuid[])`,
    [jobIds, code, message],
  );
};

/** A schedule that is disabled has no runs that wait. */
export const skipWaiting = async (db: Queryable, scheduleId: string, reason: string): Promise<void> => {
  await db.query(
    `update schedule_runs set status = 'skipped', reason = $2 where schedule_id = $1 and status = 'waiting'`,
    [scheduleId, reason],
  );
};

type RunStatus = JobStatus | 'waiting' | 'skipped';

/** A run with what its job says, or said before it was put away. */
export interface RunRow {
  readonly id: string;
  readonly schedule_id: string;
  readonly fire_at: Date;
  readonly trigger: 'schedule' | 'manual';
  readonly job_id: string | null;
  readonly status: RunStatus;
  readonly reason: string | null;
  readonly started_at: Date | null;
  readonly finished_at: Date | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
  readonly created_at: Date;
}

// A started run whose job is gone without a word cannot have done anything that is known of.
const shown = `r.id, r.schedule_id, r.fire_at, r.trigger, r.job_id, r.reason, r.created_at,
  coalesce(j.status, case r.status when 'started' then 'expired' else r.status end) as status,
  coalesce(j.started_at, r.started_at) as started_at, coalesce(j.finished_at, r.finished_at) as finished_at,
  coalesce(j.error_code, r.error_code) as error_code, coalesce(j.error_message, r.error_message) as error_message`;

export const findRun = (db: Queryable, id: string): Promise<RunRow> =>
  one(
    db.query<RunRow>(`select ${shown} from schedule_runs r left join jobs j on j.id = r.job_id where r.id = $1`, [id]),
  );

/** The latest first. */
export const listRuns = async (
  db: Queryable,
  scheduleId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ runs: RunRow[]; total: number }> => {
  const runs = await db.query<RunRow>(
    `select ${shown} from schedule_runs r left join jobs j on j.id = r.job_id
     where r.schedule_id = $1 order by r.fire_at desc, r.id desc limit $2 offset $3`,
    [scheduleId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>('select count(*) as total from schedule_runs where schedule_id = $1', [scheduleId]),
  );
  return { runs, total };
};

/** The latest run of each schedule. */
export const lastRuns = async (db: Queryable, scheduleIds: readonly string[]): Promise<ReadonlyMap<string, RunRow>> => {
  const rows = await db.query<RunRow>(
    `select ${shown} from unnest($1::uuid[]) as wanted (id),
       lateral (select * from schedule_runs r where r.schedule_id = wanted.id
         order by r.fire_at desc, r.id desc limit 1) r
       left join jobs j on j.id = r.job_id`,
    [scheduleIds],
  );
  return new Map(rows.map((row) => [row.schedule_id, row]));
};

const keptDays = 14;
const sweepBatch = 5000;

const copyEnds = (db: Queryable): Promise<unknown[]> =>
  db.query(
    `with ended as (
       select r.id, j.status, j.started_at, j.finished_at, j.error_code, j.error_message
       from schedule_runs r left join lateral (select * from jobs where id = r.job_id limit 1) j on true
       where r.status = 'started' and (j.id is null or j.status not in ('queued', 'running', 'waiting'))
       limit $1 for update of r skip locked)
     update schedule_runs r set status = coalesce(ended.status, 'expired'), started_at = ended.started_at,
       finished_at = ended.finished_at, error_code = ended.error_code, error_message = ended.error_message
     from ended where r.id = ended.id returning r.id`,
    [sweepBatch],
  );

const deleteOld = (db: Queryable): Promise<unknown[]> =>
  db.query(
    `delete from schedule_runs where id in (
       select id from schedule_runs
       where created_at < now() - make_interval(days => $1) and status not in ('waiting', 'started')
       order by created_at limit $2)
     returning id`,
    [keptDays, sweepBatch],
  );

/**
 * Copies how jobs ended into their runs, which are kept longer than some jobs, and puts away runs of more than 14 days
 * ago. For once a minute; may run beside itself.
 */
export const sweepScheduleRuns = async (db: Queryable): Promise<void> => {
  for (const step of [copyEnds, deleteOld]) {
    let done: unknown[];
    do done = await step(db);
    while (done.length === sweepBatch);
  }
};

const missedEvent = (runs: string): string => `
  insert into outbox_events (project_id, event, data)
  select s.project_id, 'cron.missed', json_build_object('schedule_id', s.id, 'name', s.name, 'run_id', m.id,
    'fire_at', to_char(m.fire_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'job_id', m.job_id,
    'status', m.status, 'reason', m.reason)
  from ${runs} m join schedules s on s.id = m.schedule_id
  where exists (select from webhook_patterns p where p.project_id = s.project_id
    and p.pattern in ('cron.missed', 'cron.*', '*'))`;

/** Tells webhooks of runs that were skipped, or failed before there was a job. */
export const emitMissed = async (db: Queryable, runIds: readonly string[]): Promise<void> => {
  await db.query(
    missedEvent(`(select * from schedule_runs where id = any ($1::uuid[]) and status in ('skipped', 'failed'))`),
    [runIds],
    'cron-missed',
  );
};

const maxLate = 500;

/**
 * Looks at runs whose deadline has passed, once at each, and tells webhooks of those that have not succeeded by then.
 * @returns whether there may be more
 */
export const emitLate = async (db: Queryable): Promise<boolean> => {
  const { seen } = await one(
    db.query<{ seen: number }>(
      `with late as materialized (
         select id, schedule_id, fire_at, job_id, status, reason, deadline_at, finished_at from schedule_runs
         where deadline_at <= now() order by deadline_at limit ${maxLate} for update skip locked
       ), looked_at as (
         update schedule_runs r set deadline_at = null from late where r.id = late.id
       ), failed as (
         select late.id, late.schedule_id, late.fire_at, late.job_id, coalesce(j.status, late.status) as status,
           'it did not succeed by its deadline' as reason
         from late left join jobs j on j.id = late.job_id
         where (coalesce(j.status, late.status) = 'succeeded'
           and coalesce(j.finished_at, late.finished_at) <= late.deadline_at) is not true
       ), emitted as (${missedEvent('failed')})
       select count(*)::int as seen from late`,
      [],
      'cron-late',
    ),
  );
  return seen === maxLate;
};
