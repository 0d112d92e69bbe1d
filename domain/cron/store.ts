import { type Queryable, maybeOne } from '#lib/control-db.ts';
import type { Plan } from '#domain/projects/store.ts';
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

const columns =
  'id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire, next_run_at, created_at, updated_at';

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

/** Counts a project's schedules; until the transaction ends nobody else adds one. */
export const countForInsert = async (db: Queryable, projectId: string): Promise<number> => {
  await db.query('select from projects where id = $1 for no key update', [projectId]);
  const [row] = await db.query<{ total: number }>('select count(*) as total from schedules where project_id = $1', [
    projectId,
  ]);
  return row?.total ?? 0;
};

export interface NewSchedule {
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
    `update schedules set name = $2, schedule = $3, timezone = $4, target = $5, payload = $6, enabled = $7, overlap = $8,
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

export interface UpcomingFire {
  readonly schedule_id: string;
  readonly project_id: string;
  readonly name: string;
  readonly target_type: Target['type'];
  readonly next_run_at: Date;
}

/** What fires next in all active projects, soonest first: for operators. */
export const upcomingFires = (db: Queryable, limit: number): Promise<UpcomingFire[]> =>
  db.query<UpcomingFire>(
    `select id as schedule_id, project_id, name, target ->> 'type' as target_type, next_run_at
     from schedules where due_at is not null order by due_at limit $1`,
    [limit],
  );

/** Whether anything is to be done now. One look at two small indexes, so that an idle tick costs one round trip. */
export const lookAround = async (db: Queryable): Promise<{ now: number; due: boolean; waiting: boolean }> => {
  const [row] = await db.query<{ now: Date; due: boolean; waiting: boolean }>(
    `select now() as now, exists (select from schedules where due_at <= now()) as due,
       exists (select from schedule_runs where status = 'waiting') as waiting`,
    [],
    'cron-look',
  );
  return row ? { ...row, now: row.now.getTime() } : { now: Date.now(), due: false, waiting: false };
};

/** Locks schedules whose time has come. What another tick holds is left to it. */
export const lockDue = (db: Queryable, limit: number): Promise<ScheduleRow[]> =>
  db.query<ScheduleRow>(
    `select ${columns} from schedules where due_at <= now() order by due_at limit $1 for update skip locked`,
    [limit],
    'cron-lock-due',
  );

// Whether a run of the schedule `s` goes on: true or null. With its limit it stays what it is, a look at a few rows for
// each schedule; an `exists` is planned as a hash over all jobs.
const running = `(
  select true from schedule_runs r join jobs j on j.id = r.job_id
  where r.schedule_id = s.id and r.status = 'started' and j.status in ('queued', 'running') limit 1)`;

/** Locks schedules with runs that wait and none that goes on. */
export const lockReleasable = (db: Queryable, limit: number): Promise<ScheduleRow[]> =>
  db.query<ScheduleRow>(
    `select ${columns} from schedules s
     where s.id in (select schedule_id from schedule_runs where status = 'waiting')
       and ${running} is null
       and exists (
         select from projects p where p.id = s.project_id and p.status = 'active' and p.deleted_at is null)
     limit $1 for update skip locked`,
    [limit],
    'cron-lock-releasable',
  );

/** What a locked schedule's fires hang on. */
export interface Facts {
  readonly id: string;
  /** When the transaction began, by the database's clock. */
  readonly now: Date;
  readonly plan: Plan;
  /** Whether its project takes fires. */
  readonly active: boolean;
  readonly running: boolean;
  readonly waiting: number;
  /** The present version of the function that it calls; null when there is none. */
  readonly function_version: number | null;
}

/** Read by a statement of its own after the locks are held, so that nothing in it is older than the locks. */
export const factsOf = async (db: Queryable, ids: readonly string[]): Promise<ReadonlyMap<string, Facts>> => {
  const rows = await db.query<Facts>(
    `select s.id, now() as now, p.plan, p.status = 'active' and p.deleted_at is null as active, f.version as function_version,
       ${running} is not null as running,
       (select count(*) from schedule_runs r where r.schedule_id = s.id and r.status = 'waiting') as waiting
     from schedules s join projects p on p.id = s.project_id
       left join functions f on f.project_id = s.project_id and f.id = (s.target ->> 'function_id')::uuid
     where s.id = any ($1::uuid[])`,
    [ids],
    'cron-facts',
  );
  return new Map(rows.map((row) => [row.id, row]));
};

/** Moves schedules on to their next fire. */
export const moveOn = async (
  db: Queryable,
  moves: readonly { readonly id: string; readonly nextRunAt: Date | null }[],
): Promise<void> => {
  await db.query(
    `update schedules s set next_run_at = moved.at, due_at = moved.at
     from unnest($1::uuid[], $2::timestamptz[]) as moved (id, at) where s.id = moved.id`,
    [moves.map((move) => move.id), moves.map((move) => move.nextRunAt)],
    'cron-move-on',
  );
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
