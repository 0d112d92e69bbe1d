import type { JobStatus } from '#domain/jobs/store.ts';
import type { Plan } from '#domain/projects/store.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import type { RetryPolicy } from '#queues/retry-policy.ts';
import { type MisfireRule, type OverlapRule, maxUnfinished } from './fires.ts';

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
  /** Null: the target's own. */
  readonly timeout_ms: number | null;
  /** Null: the function's own; other targets are not tried again. */
  readonly retry: RetryPolicy | null;
  /** Each fire is late by a random part of it. */
  readonly jitter_ms: number;
  /** Null: no run has one. */
  readonly deadline_ms: number | null;
}

export interface ScheduleRow extends ScheduleFields {
  readonly id: string;
  readonly project_id: string;
  readonly next_run_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

const columns = `id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire,
  timeout_ms, retry, jitter_ms, deadline_ms,
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
  fields.timeout_ms,
  fields.retry,
  fields.jitter_ms,
  fields.deadline_ms,
];

/** SQL: when the tick looks at a schedule. */
const jittered = (next: string, jitterMs: string): string =>
  `${next}::timestamptz + random() * make_interval(secs => ${jitterMs}::int / 1000.0)`;

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
       (id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire, next_run_at,
        timeout_ms, retry, jitter_ms, deadline_ms, due_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, ${jittered('$11', '$14')})`,
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
       overlap = $8, misfire = $9, next_run_at = $10, timeout_ms = $11, retry = $12, jitter_ms = $13, deadline_ms = $14,
       due_at = ${jittered('$10', '$13')}, updated_at = now()
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

interface FoundDue {
  readonly now: number;
  readonly due: boolean;
  readonly waiting: boolean;
  /** Deadlines of runs have passed. */
  readonly late: boolean;
}

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

/** Whether any work is due now: one query on two small indexes, so that an idle tick costs one round trip. */
export const findDue = async (db: Queryable): Promise<FoundDue> => {
  const [row] = await db.query<Omit<FoundDue, 'now'> & { now: Date }>(
    `select now() as now, exists (select from schedules where due_at <= now()) as due,
       exists (select from schedule_runs where status = 'waiting') as waiting,
       exists (select from schedule_runs where deadline_at <= now()) as late`,
    [],
    'cron-find-due',
  );
  return row ? { ...row, now: row.now.getTime() } : { now: Date.now(), due: false, waiting: false, late: false };
};

/** A locked schedule without what it sends, of which a pass may read only so much. */
export interface DueRow extends Pick<
  ScheduleRow,
  'id' | 'project_id' | 'schedule' | 'timezone' | 'overlap' | 'misfire' | 'next_run_at' | 'jitter_ms' | 'deadline_ms'
> {
  /** About how large a job of it is: its target and payload. */
  readonly bytes: number;
}

const dueColumns = `s.id, s.project_id, s.schedule, s.timezone, s.overlap, s.misfire, s.next_run_at,
  s.jitter_ms, s.deadline_ms,
  octet_length(s.target::text) + octet_length(s.payload) as bytes`;

/** Which schedules a pass locks: a batch, or some of them by their ids. */
export interface Which {
  readonly limit: number;
  readonly ids?: readonly string[];
}

/** Locks schedules whose time has come. What another tick holds is left to it. */
export const lockDue = (db: Queryable, { limit, ids }: Which): Promise<DueRow[]> =>
  db.query<DueRow>(
    `select ${dueColumns} from schedules s where due_at <= now() and ($2::uuid[] is null or s.id = any ($2))
     order by due_at limit $1 for update skip locked`,
    [limit, ids ?? null],
    'cron-lock-due',
  );

// The running runs of the schedule `s`. The limit keeps it a read of a few rows for each schedule; an `exists` is
// planned as a hash over all jobs.
const runsThatGoOn = (limit: number): string => `(
  select from schedule_runs r join jobs j on j.id = r.job_id
  where r.schedule_id = s.id and r.status = 'started' and j.status in ('queued', 'running', 'waiting') limit ${limit})`;

/** Locks schedules with runs that wait and none that goes on. */
export const lockReleasable = (db: Queryable, { limit, ids }: Which): Promise<DueRow[]> =>
  db.query<DueRow>(
    `select ${dueColumns} from schedules s
     where s.id in (select schedule_id from schedule_runs where status = 'waiting')
       and ($2::uuid[] is null or s.id = any ($2))
       and (select count(*) from ${runsThatGoOn(1)} as r) = 0
       and exists (
         select from projects p where p.id = s.project_id and p.status = 'active' and p.deleted_at is null)
     limit $1 for update skip locked`,
    [limit, ids ?? null],
    'cron-lock-releasable',
  );

export type Contents = Pick<ScheduleRow, 'id' | 'project_id' | 'target' | 'payload' | 'timeout_ms' | 'retry'>;

/** The requests of locked schedules. */
export const contentsOf = async (db: Queryable, ids: readonly string[]): Promise<ReadonlyMap<string, Contents>> => {
  const rows = await db.query<Contents>(
    'select id, project_id, target, payload, timeout_ms, retry from schedules where id = any ($1::uuid[])',
    [ids],
    'cron-contents',
  );
  return new Map(rows.map((row) => [row.id, row]));
};

/** The facts by which a locked schedule's fires are decided. */
export interface Facts {
  readonly id: string;
  /** When the transaction began, by the database's clock. */
  readonly now: Date;
  readonly plan: Plan;
  /** Whether its project takes fires. */
  readonly active: boolean;
  /** How many runs were started and have not ended; counted up to `maxUnfinished`. */
  readonly unfinished: number;
  readonly waiting: number;
  /** The present version of the function that it calls; null when there is none. */
  readonly function_version: number | null;
  readonly function_retry: RetryPolicy | null;
  /** Whether the function says when its jobs start. */
  readonly function_holds: boolean;
}

/** Read by a statement of its own after the locks are held, so that nothing in it is older than the locks. */
export const factsOf = async (db: Queryable, ids: readonly string[]): Promise<ReadonlyMap<string, Facts>> => {
  const rows = await db.query<Facts>(
    `select s.id, now() as now, p.plan, p.status = 'active' and p.deleted_at is null as active,
       f.version as function_version, f.retry as function_retry,
       (f.rate is not null or f.batch is not null) is true as function_holds,
       (select count(*) from ${runsThatGoOn(maxUnfinished)} as r) as unfinished,
       (select count(*) from schedule_runs r where r.schedule_id = s.id and r.status = 'waiting') as waiting
     from schedules s join projects p on p.id = s.project_id
       left join functions f on f.project_id = s.project_id and f.id = (s.target ->> 'function_id')::uuid
     where s.id = any ($1::uuid[])`,
    [ids],
    'cron-facts',
  );
  return new Map(rows.map((row) => [row.id, row]));
};

export interface Move {
  readonly id: string;
  readonly nextRunAt: Date | null;
  /** The time at which the tick checks it. */
  readonly dueAt: Date | null;
}

/** Moves schedules on to their next fire. */
export const moveOn = async (db: Queryable, moves: readonly Move[]): Promise<void> => {
  await db.query(
    `update schedules s set next_run_at = moved.at, due_at = moved.due
     from unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) as moved (id, at, due) where s.id = moved.id`,
    [moves.map((move) => move.id), moves.map((move) => move.nextRunAt), moves.map((move) => move.dueAt)],
    'cron-move-on',
  );
};

/** Takes a schedule out of the tick's sight for a minute; what is due stays due. */
export const putOff = async (db: Queryable, id: string): Promise<void> => {
  await db.query(`update schedules set due_at = now() + interval '1 minute' where id = $1`, [id]);
};

/**
 * Takes schedules of projects that are not active out of the tick's sight. Their fires are missed, and the misfire rule
 * says what becomes of them when the project is active again.
 */
export const park = async (db: Queryable, ids: readonly string[]): Promise<void> => {
  await db.query(
    `update schedules s set due_at = null from projects p
     where s.id = any ($1::uuid[]) and p.id = s.project_id and (p.status <> 'active' or p.deleted_at is not null)`,
    [ids],
    'cron-park',
  );
};
