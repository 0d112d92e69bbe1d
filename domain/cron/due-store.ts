import type { Plan } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { maxUnfinished } from './fires.ts';
import type { ScheduleRow } from './store.ts';

/** Whether any work is due now: one query on two small indexes, so that an idle tick costs one round trip. */
export const findDue = async (db: Queryable): Promise<{ now: number; due: boolean; waiting: boolean }> => {
  const [row] = await db.query<{ now: Date; due: boolean; waiting: boolean }>(
    `select now() as now, exists (select from schedules where due_at <= now()) as due,
       exists (select from schedule_runs where status = 'waiting') as waiting`,
    [],
    'cron-look',
  );
  return row ? { ...row, now: row.now.getTime() } : { now: Date.now(), due: false, waiting: false };
};

/** A locked schedule without what it sends, of which a pass may read only so much. */
export interface DueRow extends Pick<
  ScheduleRow,
  'id' | 'project_id' | 'schedule' | 'timezone' | 'overlap' | 'misfire' | 'next_run_at'
> {
  /** About how large a job of it is: its target and payload. */
  readonly bytes: number;
}

const dueColumns = `s.id, s.project_id, s.schedule, s.timezone, s.overlap, s.misfire, s.next_run_at,
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
  where r.schedule_id = s.id and r.status = 'started' and j.status in ('queued', 'running') limit ${limit})`;

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

export type Contents = Pick<ScheduleRow, 'id' | 'project_id' | 'target' | 'payload'>;

/** The requests of locked schedules. */
export const contentsOf = async (db: Queryable, ids: readonly string[]): Promise<ReadonlyMap<string, Contents>> => {
  const rows = await db.query<Contents>(
    'select id, project_id, target, payload from schedules where id = any ($1::uuid[])',
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
}

/** Read by a statement of its own after the locks are held, so that nothing in it is older than the locks. */
export const factsOf = async (db: Queryable, ids: readonly string[]): Promise<ReadonlyMap<string, Facts>> => {
  const rows = await db.query<Facts>(
    `select s.id, now() as now, p.plan, p.status = 'active' and p.deleted_at is null as active,
       f.version as function_version,
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
