import type { Plan } from '#domain/projects/store.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
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

interface FoundDue {
  readonly now: number;
  readonly due: boolean;
  readonly waiting: boolean;
  /** Deadlines of runs have passed. */
  readonly late: boolean;
}

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
