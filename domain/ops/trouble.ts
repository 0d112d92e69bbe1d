import type { Target } from '#domain/cron/store.ts';
import { waitingSince } from '#domain/jobs/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { QueueView, Snapshot } from './ops.ts';
import { functionOf } from '#domain/jobs/filter.ts';

/** Something that is wrong now. Earlier ones may be the cause of later ones. */
export interface Trouble {
  readonly severity: 'bad' | 'warn';
  readonly title: string;
  readonly detail: string;
  /** Where the page shows more: its address below `/ops/`. */
  readonly view: string;
}

/** Failures of the last hour that have type and code in common. */
interface FailureGroup {
  readonly type: string;
  readonly error_code: string;
  readonly count: number;
  readonly projects: number;
  readonly top_project: string;
  readonly top_project_id: string;
  readonly top_count: number;
  readonly function_name: string | null;
  readonly message: string;
}

const sampled = 5000;
const maxGroups = 6;
/** Fewer failures than that in an hour are the everyday faults of somebody's code. */
const minFailures = 5;
const longWaitSeconds = 60;
const maxMessageLength = 200;

/** Reads the newest failures of an hour, so that it costs the same at any load. */
const failureGroups = (db: Queryable): Promise<FailureGroup[]> =>
  db.query<FailureGroup>(
    `with bad as materialized (
       select j.* from unnest(array['failed', 'dead']) as s (status) cross join lateral (
         select id, type, error_code, error_message, project_id, data from jobs
         where status = s.status and finished_at > now() - interval '1 hour' order by finished_at desc limit $1) j
     ), grouped as (
       select type, coalesce(error_code, 'unknown') as error_code, count(*)::int as count,
         count(distinct project_id)::int as projects, mode() within group (order by project_id) as top_project_id,
         mode() within group (order by ${functionOf('bad')}) as top_function_id,
         (array_agg(left(error_message, $2) order by id desc))[1] as message
       from bad group by 1, 2 having count(*) >= $3 order by count desc limit $4
     )
     select g.*, coalesce(p.name, g.top_project_id::text) as top_project, f.name as function_name,
       (select count(*)::int from bad b where b.type = g.type and b.project_id = g.top_project_id
         and coalesce(b.error_code, 'unknown') = g.error_code) as top_count
     from grouped g left join projects p on p.id = g.top_project_id
     left join functions f on f.id = g.top_function_id::uuid order by g.count desc`,
    [sampled, maxMessageLength, minFailures, maxGroups],
  );

const viewOf = (name: string, fields: Readonly<Record<string, string>>): string =>
  `${name}?${new URLSearchParams(fields).toString()}`;

const span = (seconds: number): string => {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
};

const jobsOf = (count: number | null): string => (count === 1 ? '1 job' : `${(count ?? 0).toLocaleString('en')} jobs`);

const ofRedis: Trouble = {
  severity: 'bad',
  title: 'Redis does not answer',
  detail: 'Nothing new is handed to workers. What was accepted is safe in Postgres and runs once Redis is back.',
  view: '',
};

const list = new Intl.ListFormat('en');

/** Causes that keep job types from running at all, each once. */
const ofQueues = (queues: readonly QueueView[]): Trouble[] => {
  const without = queues.filter(({ workers_alive: alive }) => alive === 0);
  const closed = queues.filter((queue) => queue.open === false && !without.includes(queue));
  const paused = queues.filter((queue) => queue.paused === true);
  const about = (severity: Trouble['severity'], of: readonly QueueView[], title: string, detail: string): Trouble[] => {
    if (of.length === 0) return [];
    const waiting = of.reduce((sum, queue) => sum + (queue.waiting ?? 0), 0);
    const types = list.format(of.map(({ type }) => type));
    const view =
      of.length === 1 ? viewOf('jobs', { type: types, status: 'queued' }) : viewOf('jobs', { status: 'queued' });
    return [{ severity, title: `${title} ${types}`, detail: `${jobsOf(waiting)} at the gate. ${detail}`, view }];
  };
  return [
    ...about(
      'bad',
      without,
      'No worker is alive for',
      'They wait until one starts; the gate is opened by workers, too.',
    ),
    ...about('bad', closed, 'Rebuilt from Postgres just now:', 'They wait until that is done, some seconds mostly.'),
    ...about('warn', paused, 'Paused for all projects:', 'They wait until it is resumed.'),
  ];
};

const whyLong = ({ running, slots, window }: QueueView): string => {
  const room = slots ?? window ?? 0;
  if (room > 0 && (running ?? 0) >= room) return `All ${room} slots are busy: more workers would help.`;
  return 'Workers have room: the projects that wait are at their own limits or paused.';
};

const ofWait = (queue: QueueView): Trouble[] => {
  const { type, oldest_wait_seconds: seconds, paused, open, waiting } = queue;
  // Said by its cause already.
  if (seconds === null || seconds < longWaitSeconds || paused === true || open !== true) return [];
  const detail = `${jobsOf(waiting)} wait. ${whyLong(queue)}`;
  return [
    { severity: 'warn', title: `${type} has waited for ${span(seconds)}`, detail, view: viewOf('projects', { type }) },
  ];
};

const ofGroup = (group: FailureGroup): Trouble => {
  const { type, error_code: code, count, projects, top_project: project, top_count: max, function_name: name } = group;
  const where = name === null ? project : `${project} (function ${name})`;
  const spread = projects === 1 ? `All in ${where}.` : `In ${projects} projects, ${max} of them in ${where}.`;
  return {
    severity: projects > 3 ? 'bad' : 'warn',
    title:
      `${count >= sampled ? 'More than ' : ''}${count.toLocaleString('en')} ${type} ` +
      `failed with ${code} in the last hour`,
    detail: `${spread} Latest: ${group.message}`,
    view: viewOf('jobs', { type, error_code: code, ...(projects === 1 && { project_id: group.top_project_id }) }),
  };
};

const ofSchedules = ({ count, seconds }: { count: number; seconds: number }): Trouble[] =>
  count === 0
    ? []
    : [
        {
          severity: 'bad',
          title: `${count === 1 ? '1 schedule is' : `${count} schedules are`} overdue`,
          detail: `The first should have fired ${span(seconds)} ago. Workers of the pool system look each second.`,
          view: 'cron',
        },
      ];

interface OtherCounts {
  readonly failed_projects: number;
  readonly lost_mail: number;
}

const otherCounts = async (db: Queryable): Promise<OtherCounts> => {
  const [row] = await db.query<OtherCounts>(
    `select (select count(*)::int from projects where status = 'failed' and deleted_at is null) as failed_projects,
       (select count(*)::int from platform_mail
        where status in ('failed', 'unknown') and created_at > now() - interval '1 day') as lost_mail`,
  );
  return row ?? { failed_projects: 0, lost_mail: 0 };
};

const ofOthers = ({ failed_projects: projects, lost_mail: mails }: OtherCounts): Trouble[] => [
  ...(projects === 0
    ? []
    : [
        {
          severity: 'warn' as const,
          title: `${projects === 1 ? '1 project has' : `${projects} projects have`} no database`,
          detail: 'Their creation failed. A retry of the job project.provision makes it.',
          view: viewOf('jobs', { type: 'project.provision', status: 'dead' }),
        },
      ]),
  ...(mails === 0
    ? []
    : [
        {
          severity: 'warn' as const,
          title: `${mails === 1 ? '1 mail' : `${mails} mails`} of the platform did not arrive in the last day`,
          detail: 'Invites, resets or notices; each can be sent again.',
          view: viewOf('mail', { status: 'failed' }),
        },
      ]),
];

/** Lists present problems: first causes that stop everything, then their visible effects. */
export const troubles = async (db: Queryable, { redis, queues }: Snapshot): Promise<Trouble[]> => {
  const [groups, overdue, others] = await Promise.all([failureGroups(db), overdueSchedules(db), otherCounts(db)]);
  const blocked = redis ? ofQueues(queues) : [];
  const failures = groups.map(ofGroup);
  return [
    ...(redis ? [] : [ofRedis]),
    ...blocked.filter(({ severity }) => severity === 'bad'),
    ...ofSchedules(overdue),
    ...failures.filter(({ severity }) => severity === 'bad'),
    ...blocked.filter(({ severity }) => severity === 'warn'),
    ...failures.filter(({ severity }) => severity === 'warn'),
    ...queues.flatMap(ofWait),
    ...ofOthers(others),
  ];
};

/** How the latest run of a schedule ended, or where it stands. */
interface LastRun {
  readonly status: string;
  readonly fire_at: Date;
  readonly job_id: string | null;
  /** Why it was skipped, or failed without a job. */
  readonly reason: string | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
}

/** A schedule as operators see it. */
interface UpcomingFire {
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
const maxRunMessageLength = 300;

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
    [limit, overdueAfterSeconds, maxRunMessageLength],
  );
  return rows.map(firedOf);
};

/** How many schedules of active projects should have fired a while ago, and since when. */
const overdueSchedules = async (db: Queryable): Promise<{ count: number; seconds: number }> => {
  const [row] = await db.query<{ count: number; seconds: number | null }>(
    `select count(*)::int as count, extract(epoch from now() - min(due_at))::float8 as seconds
     from (select due_at from schedules where due_at < now() - make_interval(secs => $1)
       order by due_at limit 1000) late`,
    [overdueAfterSeconds],
  );
  return { count: row?.count ?? 0, seconds: row?.seconds ?? 0 };
};

/** The figures of one job type from the rows. */
export interface JobFigures {
  readonly type: string;
  readonly oldest_wait: number;
  readonly dead: number;
}

// Redriven or deleted they are few; what was left alone for weeks must not make each scrape read all of it.
export const maxDead = 10_000;

/** The figures of these job types, in no order. */
export const figuresOfJobs = (db: Queryable, types: readonly string[]): Promise<JobFigures[]> =>
  db.query<JobFigures>(
    `with dead as (
       select type, count(*)::int as jobs
       from (select type from jobs where status = 'dead' order by id limit ${maxDead}) few group by type
     )
     select t.type, coalesce(dead.jobs, 0) as dead,
       greatest(0, coalesce(extract(epoch from clock_timestamp() - ${waitingSince('t.type')}), 0))::float8 as oldest_wait
     from unnest($1::text[]) as t (type) left join dead on dead.type = t.type`,
    [types],
    'job-gauges',
  );
