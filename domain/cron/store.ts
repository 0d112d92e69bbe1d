import type { JobStatus } from '#domain/jobs/store.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import type { MisfireRule, OverlapRule } from './fires.ts';

export type Target =
  | { readonly type: 'function'; readonly function_id: string }
  | { readonly type: 'http'; readonly url: string }
  | { readonly type: 'sql'; readonly sql: string };

export interface ScheduleFields {
  readonly name: string;
  readonly schedule: string;
  readonly timezone: string;
  readonly target: Target;
  /** Exact JSON text. */
  readonly payload: string;
  readonly enabled: boolean;
  readonly overlap: OverlapRule;
  readonly misfire: MisfireRule;
}

export interface ScheduleRow extends ScheduleFields {
  readonly id: string;
  readonly project_id: string;
  readonly next_run_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

const columns = `id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire,
  next_run_at, created_at, updated_at`;

const valuesOf = (fields: ScheduleFields, nextRunAt: Date | null): unknown[] => [
  fields.name,
  fields.schedule,
  fields.timezone,
  JSON.stringify(fields.target),
  fields.payload,
  fields.enabled,
  fields.overlap,
  fields.misfire,
  nextRunAt,
];

/** The database's clock, by which everything here is due. Within a transaction: when it began. */
export const databaseTime = async (db: Queryable): Promise<number> => {
  const [row] = await db.query<{ now: Date }>('select now() as now', [], 'now');
  return row?.now.getTime() ?? Date.now();
};

/** Counts a project's schedules; until the transaction ends no other one adds one. */
export const countForInsert = async (db: Queryable, projectId: string): Promise<number> => {
  await db.query('select from projects where id = $1 for no key update', [projectId]);
  const [row] = await db.query<{ total: number }>('select count(*) as total from schedules where project_id = $1', [
    projectId,
  ]);
  return row?.total ?? 0;
};

interface NewSchedule {
  readonly id: string;
  readonly projectId: string;
  readonly fields: ScheduleFields;
  readonly nextRunAt: Date | null;
}

export const insertSchedule = async (
  db: Queryable,
  { id, projectId, fields, nextRunAt }: NewSchedule,
): Promise<void> => {
  await db.query(
    `insert into schedules
       (id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire, next_run_at, due_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)`,
    [id, projectId, ...valuesOf(fields, nextRunAt)],
  );
};

export const replaceSchedule = async (
  db: Queryable,
  id: string,
  fields: ScheduleFields,
  nextRunAt: Date | null,
): Promise<void> => {
  await db.query(
    `update schedules set name = $2, schedule = $3, timezone = $4, target = $5, payload = $6, enabled = $7,
       overlap = $8,
       misfire = $9, next_run_at = $10, due_at = $10, updated_at = now()
     where id = $1`,
    [id, ...valuesOf(fields, nextRunAt)],
  );
};

export const findSchedule = (db: Queryable, projectId: string, id: string): Promise<ScheduleRow | undefined> =>
  maybeOne(
    db.query<ScheduleRow>(`select ${columns} from schedules where project_id = $1 and id = $2`, [projectId, id]),
  );

/** Holds back the tick and other changes until this transaction ends. */
export const lockSchedule = (db: Queryable, projectId: string, id: string): Promise<ScheduleRow | undefined> =>
  maybeOne(
    db.query<ScheduleRow>(`select ${columns} from schedules where project_id = $1 and id = $2 for update`, [
      projectId,
      id,
    ]),
  );

export const listSchedules = async (
  db: Queryable,
  projectId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ schedules: ScheduleRow[]; total: number }> => {
  const schedules = await db.query<ScheduleRow>(
    `select ${columns} from schedules where project_id = $1 order by created_at, id limit $2 offset $3`,
    [projectId, limit, offset],
  );
  const [count] = await db.query<{ total: number }>('select count(*) as total from schedules where project_id = $1', [
    projectId,
  ]);
  return { schedules, total: count?.total ?? 0 };
};

export const deleteSchedule = async (db: Queryable, projectId: string, id: string): Promise<boolean> =>
  (await db.query('delete from schedules where project_id = $1 and id = $2 returning id', [projectId, id])).length > 0;

export interface NewRun {
  readonly id: string;
  readonly scheduleId: string;
  readonly fireAt: Date;
  readonly trigger: 'schedule' | 'manual';
  readonly jobId: string | null;
  readonly status: 'waiting' | 'started' | 'skipped' | 'failed';
  readonly reason: string | null;
}

/**
 * Writes runs in one statement.
 * @returns the ids of those that are new: a fire that is there already stays as it is
 */
export const insertRuns = async (db: Queryable, runs: readonly NewRun[]): Promise<ReadonlySet<string>> => {
  const rows = await db.query<{ id: string }>(
    `insert into schedule_runs (id, schedule_id, fire_at, trigger, job_id, status, reason)
     select * from unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::uuid[], $6::text[], $7::text[])
     on conflict do nothing returning id`,
    [
      runs.map((run) => run.id),
      runs.map((run) => run.scheduleId),
      runs.map((run) => run.fireAt),
      runs.map((run) => run.trigger),
      runs.map((run) => run.jobId),
      runs.map((run) => run.status),
      runs.map((run) => run.reason),
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
       where r.status = 'started' and (j.id is null or j.status not in ('queued', 'running'))
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
