import type { Queryable } from '#lib/control-db.ts';
import type { Target } from './store.ts';

/** How the latest run of a schedule ended, or where it stands. */
export interface LastRun {
  readonly status: string;
  readonly fire_at: Date;
  readonly job_id: string | null;
  /** Why it was skipped, or failed without a job. */
  readonly reason: string | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
}

/** A schedule as operators see it. */
export interface UpcomingFire {
  readonly schedule_id: string;
  readonly project_id: string;
  readonly project_ref: string;
  readonly project_name: string;
  readonly name: string;
  readonly schedule: string;
  readonly timezone: string;
  readonly target_type: Target['type'];
  /** Null when it was deleted, and for other targets. */
  readonly function_name: string | null;
  readonly next_run_at: Date;
  /** Seconds since it should have fired; null within the tick's usual delay. */
  readonly overdue_seconds: number | null;
  readonly last_run: LastRun | null;
}

/** The tick comes each second; what is later than this is late for a reason. */
const overdueAfterSeconds = 15;
const maxMessageLength = 300;

type Row = Omit<UpcomingFire, 'last_run'> & {
  readonly [Name in keyof LastRun as `last_${Name}`]: LastRun[Name] | null;
};

const firedOf = ({ last_status: status, last_fire_at: fireAt, ...row }: Row): UpcomingFire => {
  const { last_job_id, last_reason, last_error_code, last_error_message, ...schedule } = row;
  if (status === null || fireAt === null) return { ...schedule, last_run: null };
  const ended = {
    job_id: last_job_id,
    reason: last_reason,
    error_code: last_error_code,
    error_message: last_error_message,
  };
  return { ...schedule, last_run: { status, fire_at: fireAt, ...ended } };
};

/** The next fires of all active projects, soonest first: overdue ones lead. */
export const upcomingFires = async (db: Queryable, limit: number): Promise<UpcomingFire[]> => {
  const rows = await db.query<Row>(
    `select s.id as schedule_id, s.project_id, p.ref as project_ref, p.name as project_name, s.name, s.schedule,
       s.timezone, s.target ->> 'type' as target_type, f.name as function_name, s.next_run_at,
       case when s.due_at < now() - make_interval(secs => $2)
         then extract(epoch from now() - s.due_at)::float8 end as overdue_seconds,
       coalesce(j.status, r.status) as last_status, r.fire_at as last_fire_at, r.job_id as last_job_id,
       r.reason as last_reason, coalesce(j.error_code, r.error_code) as last_error_code,
       left(coalesce(j.error_message, r.error_message), $3) as last_error_message
     from (select * from schedules where due_at is not null order by due_at limit $1) s
     join projects p on p.id = s.project_id
     left join functions f on f.id = (s.target ->> 'function_id')::uuid
     left join lateral (
       select * from schedule_runs where schedule_id = s.id order by fire_at desc, id desc limit 1) r on true
     left join jobs j on j.id = r.job_id and r.status = 'started'
     order by s.due_at`,
    [limit, overdueAfterSeconds, maxMessageLength],
  );
  return rows.map(firedOf);
};

/** How many schedules of active projects should have fired a while ago, and since when. */
export const overdueSchedules = async (db: Queryable): Promise<{ count: number; seconds: number }> => {
  const [row] = await db.query<{ count: number; seconds: number | null }>(
    `select count(*)::int as count, extract(epoch from now() - min(due_at))::float8 as seconds
     from (select due_at from schedules where due_at < now() - make_interval(secs => $1) order by due_at limit 1000) late`,
    [overdueAfterSeconds],
  );
  return { count: row?.count ?? 0, seconds: row?.seconds ?? 0 };
};
