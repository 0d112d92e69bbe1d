import type { AssumedMember } from '#domain/accounts/callers.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { textArray } from '#lib/text-array.ts';
import { type EndStatus, type JobError, type JobOutcome, type JobRef, endStatuses } from '#queues/define.ts';
import type { EnqueueOptions } from '#queues/enqueue-options.ts';
import type { RetryPolicy } from '#queues/retry-policy.ts';
import { thisMonth, unlimited } from './usage.ts';

/**
 * The actor that starts a job: a member in the dashboard (or an operator, without an id), an API key, one of the
 * project's own users, a schedule, or an event (a webhook, a payment provider).
 */
export interface Starter {
  readonly kind: 'dashboard' | 'secret' | 'publishable' | 'user' | 'cron' | 'event';
  /** The id of the user, key, schedule, webhook or integration; for a project's own user, the subject of the token. */
  readonly id: string | null;
}

/** The columns of `jobs` that say who started it. */
interface StartedBy {
  readonly started_by_kind: string | null;
  readonly started_by_id: string | null;
}

/** Whether that key or end user may read a job: a secret key reads all of its project, the others what they started. */
export const mayRead = (job: StartedBy, { kind, id }: Starter): boolean =>
  kind === 'secret' || (id !== null && job.started_by_kind === kind && job.started_by_id === id);

export type JobStatus = 'queued' | 'running' | 'waiting' | EndStatus;

export interface NewJobRow {
  readonly id: string;
  readonly projectId: string;
  readonly type: string;
  /** JSON text. */
  readonly data: string;
  readonly maxAttempts: number;
  readonly requestId: string;
  /** The reply stream of the API process whose caller waits. */
  readonly replyTo?: string | null;
  readonly traceparent?: string | null;
  /** Left out: the platform itself. */
  readonly startedBy?: Starter | undefined;
  /**
   * How many of its type its project may have accepted this month; null: counted without a limit. Left out: not
   * counted.
   */
  readonly monthlyLimit?: number | null | undefined;
  /** Left out: the job names no function that may have changed. */
  readonly assumes?: Assumptions | undefined;
  /** Left out: it runs as soon as it can, once. */
  readonly options?: JobOptions | undefined;
}

/** When, in which order, how often and how many at a time jobs run. */
interface JobOptions extends Readonly<Omit<EnqueueOptions, 'unique_key' | 'unique_for_ms'>> {
  /** The function that says when it may start. */
  readonly flow_of?: string | undefined;
  /** It stands for all jobs of its function with this key until it is due. */
  readonly debounce_key?: string | undefined;
  readonly debounce_ms?: number | undefined;
  /** It runs the payloads of so many jobs. */
  readonly batch_size?: number | undefined;
  /** How many jobs stand behind it that each enqueued the next. */
  readonly depth?: number | undefined;
}

/** The function and the caller as they were known when the data was made: a job is inserted only while both are so. */
export interface Assumptions {
  readonly functionId: string;
  readonly version: number;
  /** By which it was asked for; null: by its id. */
  readonly slug: string | null;
  /** The callers that the function takes; null: it was not called at its public address. */
  readonly access: string | null;
  /** Left out: the caller was found in the database, or is no member. */
  readonly member?: AssumedMember | undefined;
}

export interface JobRow extends StartedBy {
  readonly id: string;
  readonly project_id: string;
  readonly type: string;
  readonly status: JobStatus;
  readonly result: string | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
  readonly progress: number | null;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly request_id: string;
  /** The run that is under way, or was the last. */
  readonly run_id: string | null;
  /** Infinity: it waits for a place of its concurrency key. */
  readonly next_run_at: Date | number | null;
  readonly priority: number;
  readonly concurrency_key: string | null;
  /** Why its function does not let it start yet; null: it does, or the job waits for something else. */
  readonly held_for: 'rate_limited' | 'debounce' | 'batch' | null;
  /** Why a run broke off that is to be continued; null: it runs, has not started, or has ended. */
  readonly step_wait: 'sleep' | 'event' | 'retry' | 'crash' | null;
  readonly has_steps: boolean;
  readonly created_at: Date;
  readonly started_at: Date | null;
  readonly finished_at: Date | null;
}

/** The result of a job of a batch is that of the batch. */
const resultOf = (job: string): string =>
  `coalesce(${job}.result, (select b.result from jobs b where b.id = ${job}.batch_id))`;

/** SQL: why the function of a job does not let it start yet. @param job names the row */
export const heldFor = (job: string): string => `case
    when ${job}.status <> 'queued' then null
    when ${job}.batch_id is not null then 'batch'
    when ${job}.debounce_key is not null then 'debounce'
    when ${job}.flow_of is null then null
    when ${job}.next_run_at = ${job}.slot_at then 'rate_limited'
    when ${job}.next_run_at <> 'infinity' or ${job}.next_run_at is null or ${job}.slot_at is not null then null
    when ${job}.batch_size is null and (select f.batch is not null from functions f where f.id = ${job}.flow_of)
      then 'batch'
    else 'rate_limited' end`;

const columnsWith = (job: string, result: string): string => `id, project_id, type, status, ${result} as result,
  error_code, error_message, progress, attempt, max_attempts, request_id, run_id, next_run_at, priority, concurrency_key,
  ${heldFor(job)} as held_for, step_wait, has_steps, created_at, started_at, finished_at, started_by_kind, started_by_id`;

/** The columns of a job as it is shown. @param job names the row */
export const jobColumnsOf = (job: string): string => columnsWith(job, resultOf(job));
export const jobColumns = jobColumnsOf('jobs');

const ends: ReadonlySet<string> = new Set(endStatuses);

export const hasEnded = (row: Pick<JobRow, 'status'>): boolean => ends.has(row.status);

export const errorOf = (row: Pick<JobRow, 'error_code' | 'error_message'>): JobError | null =>
  row.error_code === null ? null : { code: row.error_code, message: row.error_message ?? '' };

/** How a job ended; null while it has not. */
export const outcomeOf = (row: Pick<JobRow, 'status' | 'result' | 'error_code' | 'error_message'>): JobOutcome | null =>
  hasEnded(row) ? { status: row.status as EndStatus, result: row.result, error: errorOf(row) } : null;

/** How jobs ended; those that have not are left out. */
export const endsOf = async (db: Queryable, ids: readonly string[]): Promise<ReadonlyMap<string, JobOutcome>> => {
  if (ids.length === 0) return new Map();
  const rows = await db.query<Pick<JobRow, 'id' | 'status' | 'result' | 'error_code' | 'error_message'>>(
    'select id, status, result, error_code, error_message from jobs where id = any($1::uuid[])',
    [ids],
    'ends-of-jobs',
  );
  return new Map(
    rows.flatMap((row) => {
      const outcome = outcomeOf(row);
      return outcome === null ? [] : [[row.id, outcome] as const];
    }),
  );
};

/** A job as the worker needs it that may not start it. */
export type Standing = Pick<JobRow, 'status' | 'result' | 'error_code' | 'error_message'> & {
  readonly reply_to: string | null;
  readonly priority: number;
  /** Whether it waits for nothing but its turn. */
  readonly due: boolean;
};

export const standingOf = (db: Queryable, id: string): Promise<Standing | undefined> =>
  maybeOne(
    db.query<Standing>(
      `select status, result, error_code, error_message, reply_to, priority, next_run_at is null as due
       from jobs where id = $1`,
      [id],
    ),
  );

export const refOf = (row: Pick<JobRow, 'id' | 'type' | 'project_id' | 'priority'>): JobRef => ({
  id: row.id,
  type: row.type,
  projectId: row.project_id,
  priority: row.priority,
});

// A scalar, so that the planner cannot choose to hash all members when the tables are small.
const isStillMember = `select true from sign_in_tokens t join sign_ins s on s.id = t.sign_in_id
        join projects p on p.id = given.project_id join members m on m.org_id = p.org_id and m.user_id = s.user_id
      where t.hash = given.token_hash and t.kind <> 'refresh' and t.expires_at > now() and s.ended_at is null
        and p.deleted_at is null and p.status = 'active' and p.plan = given.plan and m.role = given.role`;

// By the database's clock, which also says when it has come.
const dueAt = `greatest(coalesce((options ->> 'run_at')::timestamptz,
      now() + make_interval(secs => (options ->> 'delay_ms')::float8 / 1000)),
      now() + make_interval(secs => (options ->> 'debounce_ms')::float8 / 1000))`;

// The monthly count and the jobs are one statement, so that the count is exact whichever process dies. All transactions
// take rows of the count in one order; their locks last until the commit, so this comes last in a transaction.
const insertFrom = (rows: string): string => `
  with new as materialized (${rows}
  ), granted as (
    insert into job_usage as u (project_id, type, month, used, granted, most)
    select project_id, type, ${thisMonth}, least(count(*), min(most)), least(count(*), min(most)), min(most)
    from new where counted group by project_id, type order by project_id, type
    on conflict (project_id, type, month) do update set most = excluded.most,
      granted = greatest(0, least(excluded.granted, excluded.most - u.used)),
      used = u.used + greatest(0, least(excluded.granted, excluded.most - u.used))
    returning project_id, type, granted
  )
  insert into jobs (id, project_id, type, status, data, max_attempts, request_id, reply_to, traceparent,
    started_by_kind, started_by_id, priority, retry, depth, concurrency_key, concurrency, expires_at, next_run_at,
    queued_at, flow_of, debounce_key, batch_size)
  select id, project_id, type, 'queued', data, max_attempts, request_id, reply_to, traceparent,
    started_by_kind, started_by_id, coalesce((options ->> 'priority')::smallint, 0), nullif(options -> 'retry', 'null'),
    coalesce((options ->> 'depth')::smallint, 0), options ->> 'concurrency_key',
    (options ->> 'concurrency')::smallint, now() + make_interval(secs => (options ->> 'expires_in_ms')::float8 / 1000),
    case when options is null then null when ${dueAt} > now() then ${dueAt}
      when options ? 'concurrency_key' or options ? 'flow_of' then 'infinity'::timestamptz end,
    coalesce(greatest(${dueAt}, now()), now()), (options ->> 'flow_of')::uuid, options ->> 'debounce_key',
    (options ->> 'batch_size')::smallint
  from new left join granted using (project_id, type) where not counted or nth <= granted
  returning id, next_run_at is null as ready`;

const insertSql = insertFrom(`
    select *, row_number() over (partition by project_id, type, counted order by place) as nth
    from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::int[], $6::text[], $7::text[], $8::text[],
        $9::bool[], $10::bigint[], $11::text[], $12::text[], $13::uuid[], $14::int[], $15::text[], $16::bytea[],
        $17::text[], $18::text[], $19::text[], $20::jsonb[]) with ordinality
      as given (id, project_id, type, data, max_attempts, request_id, reply_to, traceparent, counted, most,
        started_by_kind, started_by_id, function_id, version, slug, token_hash, role, plan, access, options,
        place)
    where (function_id is null or exists (select from functions f where f.id = given.function_id
        and f.project_id = given.project_id and f.version = given.version and f.slug = coalesce(given.slug, f.slug)
        and f.access = coalesce(given.access, f.access)))
      and (token_hash is null or (${isStillMember}))`);

// Jobs that one call enqueues differ in these only. Twenty arrays of a thousand values each, and a window over them, took
// 11.8 ms of PostgreSQL's CPU time and 5.3 of ours; this takes 9.3 and 1.9, of which each of six indexes has 1.2.
const insertAlikeSql = insertFrom(`
    select id, $4::uuid as project_id, $5::text as type, data, max_attempts, $6::text as request_id,
      null as reply_to, $7::text as traceparent, $8::bool as counted, $9::bigint as most,
      $10::text as started_by_kind, $11::text as started_by_id, options, nth
    from unnest($1::uuid[], $2::text[], $3::jsonb[], $12::int[]) with ordinality
      as given (id, data, options, max_attempts, nth)`);

/**
 * Jobs that one call enqueues: they are of one project, type, request, starter and limit, nobody waits for one, and none
 * assumes anything.
 * @returns as `insertJobs`
 */
export const insertAlikeJobs = async (
  db: Queryable,
  jobs: readonly NewJobRow[],
): Promise<ReadonlyMap<string, boolean>> => {
  const [first] = jobs;
  if (first === undefined) return new Map();
  const rows = await db.query<{ id: string; ready: boolean }>(
    insertAlikeSql,
    [
      jobs.map((job) => job.id),
      jobs.map((job) => job.data),
      jobs.map((job) => (job.options === undefined ? null : JSON.stringify(job.options))),
      first.projectId,
      first.type,
      first.requestId,
      first.traceparent ?? null,
      first.monthlyLimit !== undefined,
      first.monthlyLimit ?? unlimited,
      first.startedBy?.kind ?? null,
      first.startedBy?.id ?? null,
      jobs.map((job) => job.maxAttempts),
    ],
    'insert-alike-jobs',
  );
  return new Map(rows.map(({ id, ready }) => [id, ready]));
};

/**
 * One statement for any number of jobs.
 * @returns the ids of those that are accepted, and whether each is ready for the gate or waits for its time: the others
 *   would go over their project's monthly limit, or assume something of their function or caller that is not so any more
 */
export const insertJobs = async (db: Queryable, jobs: readonly NewJobRow[]): Promise<ReadonlyMap<string, boolean>> => {
  const rows = await db.query<{ id: string; ready: boolean }>(
    insertSql,
    [
      jobs.map((job) => job.id),
      jobs.map((job) => job.projectId),
      jobs.map((job) => job.type),
      jobs.map((job) => job.data),
      jobs.map((job) => job.maxAttempts),
      jobs.map((job) => job.requestId),
      jobs.map((job) => job.replyTo ?? null),
      jobs.map((job) => job.traceparent ?? null),
      jobs.map((job) => job.monthlyLimit !== undefined),
      jobs.map((job) => job.monthlyLimit ?? unlimited),
      jobs.map((job) => job.startedBy?.kind ?? null),
      jobs.map((job) => job.startedBy?.id ?? null),
      jobs.map((job) => job.assumes?.functionId ?? null),
      jobs.map((job) => job.assumes?.version ?? null),
      jobs.map((job) => job.assumes?.slug ?? null),
      jobs.map((job) => job.assumes?.member?.tokenHash ?? null),
      jobs.map((job) => job.assumes?.member?.role ?? null),
      jobs.map((job) => job.assumes?.member?.plan ?? null),
      jobs.map((job) => job.assumes?.access ?? null),
      jobs.map((job) => (job.options === undefined ? null : JSON.stringify(job.options))),
    ],
    'insert-jobs',
  );
  return new Map(rows.map(({ id, ready }) => [id, ready]));
};

/**
 * Takes back a job that never reached the gate, and its count. False when a worker began it, or it was never there.
 * @param counted whether it was counted when it was inserted
 */
export const deleteQueuedJob = async (db: Queryable, id: string, counted = false): Promise<boolean> => {
  const gone = await db.query(
    `with gone as (
       delete from jobs where id = $1 and status = 'queued' returning id, project_id, type, created_at
     ), returned as (
       update job_usage u set used = greatest(0, u.used - 1) from gone
       where $2 and u.project_id = gone.project_id and u.type = gone.type
         and u.month = date_trunc('month', gone.created_at at time zone 'utc')::date
     )
     select id from gone`,
    [id, counted],
  );
  return gone.length > 0;
};

export const findJob = (db: Queryable, projectId: string, id: string): Promise<JobRow | undefined> =>
  maybeOne(
    db.query<JobRow>(`select ${jobColumns} from jobs where project_id = $1 and id = $2`, [projectId, id], 'find-job'),
  );

export interface JobStart {
  readonly id: string;
  /** Names this start, so that recording it twice counts once. */
  readonly runId: string;
  readonly workerId: string;
  readonly shard: string;
  /** The shard's life in which the job was handed over. */
  readonly epoch: string;
}

/** The columns that a worker needs of a started job. */
export interface StartedJob {
  readonly id: string;
  /** Which of the starts it was: of several of one job, one is answered. */
  readonly run_id: string;
  /** The number of starts by workers, this one included. */
  readonly attempt: number;
  /** JSON text. */
  readonly data: string;
  readonly request_id: string;
  readonly reply_to: string | null;
  readonly traceparent: string | null;
  readonly cancel_requested_at: Date | null;
  readonly waited_ms: number;
  /** Which state of the project's variables the run of a function must see; 0: none. */
  readonly env_version: number;
  readonly priority: number;
  readonly concurrency_key: string | null;
  /** Null: a run that fails is not followed by another. */
  readonly retry: RetryPolicy | null;
  readonly depth: number;
}

/**
 * Settings of sessions that prepare the statements which start and end jobs. A prepared statement keeps its plan until
 * its table is analyzed: made while the table was small, or while few jobs ran, it walked through all of it (12 ms a
 * call at 40,000 jobs). With these settings, and the states as a case, the primary key is the only way, so it is
 * planned once. As settings of functions they took some 100 µs of each call.
 */
export const byIndexOnly = {
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  plan_cache_mode: 'force_generic_plan',
} as const;

const startSql = `
  update jobs j set status = 'running', run_id = started.run, worker_id = started.worker, next_run_at = null,
    started_at = case when j.run_id is not distinct from started.run then j.started_at else clock_timestamp() end,
    attempt = j.attempt + (j.run_id is distinct from started.run and j.step_wait is null)::int, step_wait = null
  from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::bigint[]) as started (id, run, worker, shard, epoch)
    join queue_shards s on s.name = started.shard and s.epoch = started.epoch
  where j.id = started.id and case j.status
    when 'queued' then (j.next_run_at is null or j.next_run_at <= now())
      and (j.expires_at is null or j.attempt > 0 or j.expires_at > now()) and (j.type = 'project.provision'
      or (select p.deleted_at is null from projects p where p.id = j.project_id) is not false)
    when 'running' then j.run_id = started.run
    else false end
  returning j.id, j.run_id, j.attempt, j.data, j.request_id, j.reply_to, j.traceparent, j.cancel_requested_at,
    j.priority, j.concurrency_key, j.retry, j.depth,
    extract(epoch from clock_timestamp() - j.queued_at)::float8 * 1000 as waited_ms,
    case j.type when 'function.invoke'
      then coalesce((select e.version from project_env e where e.project_id = j.project_id), 0) else 0 end as env_version`;

/**
 * Begins jobs that wait. Not among the answers: a job that has ended, that runs, whose time has not come, or that was
 * handed over in an earlier life of its shard (its lease is gone, somebody else may have its place).
 * @param name of the prepared statement, in sessions with `byIndexOnly`; left out: it is planned anew
 */
export const startJobs = (db: Queryable, starts: readonly JobStart[], name?: string): Promise<StartedJob[]> =>
  db.query<StartedJob>(
    startSql,
    [
      starts.map((s) => s.id),
      starts.map((s) => s.runId),
      starts.map((s) => s.workerId),
      starts.map((s) => s.shard),
      starts.map((s) => s.epoch),
    ],
    name,
  );

export interface JobEnd {
  readonly id: string;
  /** The start that ended: what somebody else runs meanwhile is not ours to end. */
  readonly runId: string;
  /** By the worker's clock; never recorded as before the start. */
  readonly finishedAt: Date;
  readonly outcome: JobOutcome;
  /** The last that was said. */
  readonly progress?: number | undefined;
}

/** The ends that a statement recorded. */
export interface RecordedEnds {
  readonly ids: readonly string[];
  /** Whether any of them left an event that a webhook subscribes to. */
  readonly hasEvents: boolean;
}

// A run's record is made by a trigger of this update, which says in a setting of the transaction whether it left
// events.
const endSql = `
  update jobs j set status = ended.status, result = ended.result, error_code = ended.code,
    error_message = ended.message, report = ended.report, progress = coalesce(ended.percent, j.progress),
    finished_at = greatest(j.started_at, ended.at)
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::text[],
      $9::int[]) as ended (id, run, status, result, code, message, at, report, percent)
  where j.id = ended.id and case j.status when 'running' then j.run_id = ended.run else false end
  returning j.id, current_setting('plinth.has_events', true) is not distinct from 'on' as has_events`;

/**
 * Records ends, each once: a job that has ended, or that was taken from this worker, stays as it is.
 * @param name of the prepared statement, in sessions with `byIndexOnly`; left out: it is planned anew
 * @returns those that ended by this
 */
export const recordEnds = async (db: Queryable, ended: readonly JobEnd[], name?: string): Promise<RecordedEnds> => {
  const rows = await db.query<{ id: string; has_events: boolean }>(
    endSql,
    [
      ended.map((e) => e.id),
      ended.map((e) => e.runId),
      ended.map((e) => e.outcome.status),
      textArray(ended.map((e) => e.outcome.result)),
      ended.map((e) => e.outcome.error?.code ?? null),
      ended.map((e) => e.outcome.error?.message ?? null),
      ended.map((e) => e.finishedAt),
      textArray(ended.map((e) => e.outcome.report ?? null)),
      ended.map((e) => e.progress ?? null),
    ],
    name,
  );
  return { ids: rows.map((row) => row.id), hasEvents: rows.some((row) => row.has_events) };
};

/** Longer results are left out of a list: two hundred whole ones would be a gigabyte. */
export const maxListedResultLength = 16 * 1024;
/** The columns of a job in a list, from `jobs j`. */
export const listedColumns = columnsWith(
  'j',
  `(select case when octet_length(whole) <= ${maxListedResultLength} then whole end from (select ${resultOf('j')} as whole) r)`,
);

/**
 * SQL: the time since which the longest-waiting job of this type has waited; null when none waits. Only jobs that were
 * never started count: a retry is older than its wait. Three buffers, by the first entry of the index
 * `jobs_never_begun`.
 * @param type SQL that names the type
 */
export const waitingSince = (type: string): string => `(
  select queued_at from jobs
  where type = ${type} and status = 'queued' and next_run_at is null and attempt = 0
  order by queued_at limit 1)`;
