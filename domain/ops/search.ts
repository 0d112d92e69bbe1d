import { lastLogLines } from '#domain/jobs/logs.ts';
import { type JobFilter, bounded, filterSize, filterSql, filterValues, functionOf } from '#domain/jobs/filter.ts';
import type { JobStatus } from '#domain/jobs/store.ts';
import { type ControlDb, type Queryable, maybeOne } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';

/** A project or function as people name it: by id, ref, slug or name. */
interface Named {
  readonly project?: string | undefined;
  readonly function?: string | undefined;
}

const maxNamed = 50;

/**
 * Finds the projects and functions that are meant. A function bounds the projects, too, so that only their jobs are
 * read.
 * @returns empty lists where nothing has that name
 */
export const idsOfNamed = async (
  db: Queryable,
  { project, function: named }: Named,
): Promise<Pick<JobFilter, 'projectIds' | 'functionIds'>> => {
  const projects =
    project === undefined
      ? undefined
      : await db.query<{ id: string }>(
          `select id from projects where id::text = $1 or ref = $1 or slug = $1 or lower(name) = lower($1)
           order by created_at desc limit ${maxNamed}`,
          [project],
        );
  if (named === undefined) return { projectIds: projects?.map(({ id }) => id) };
  const functions = await db.query<{ id: string; project_id: string }>(
    `select id, project_id from functions
     where (id::text = $1 or slug = $1 or lower(name) = lower($1)) and ($2::uuid[] is null or project_id = any ($2))
     order by created_at desc limit ${maxNamed}`,
    [named, projects?.map(({ id }) => id) ?? null],
  );
  return { projectIds: functions.map((one) => one.project_id), functionIds: functions.map(({ id }) => id) };
};

export interface FoundJob {
  readonly id: string;
  readonly project_id: string;
  /** Null when the project's row is gone. */
  readonly project_ref: string | null;
  readonly project_name: string | null;
  /** Null for other jobs than runs of functions. */
  readonly function_id: string | null;
  /** Null when the function was deleted, too. */
  readonly function_name: string | null;
  readonly type: string;
  readonly status: JobStatus;
  readonly progress: number | null;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly error_code: string | null;
  readonly error_message: string | null;
  readonly request_id: string;
  readonly worker_id: string | null;
  readonly created_at: Date;
  readonly next_run_at: Date | null;
  readonly started_at: Date | null;
  readonly finished_at: Date | null;
}

interface FoundJobs {
  readonly jobs: FoundJob[];
  /** Counted up to 10,000; `totalIsExact` says whether that was enough. */
  readonly total: number;
  readonly totalIsExact: boolean;
}

const maxMessageLength = 300;
const maxCounted = 10_000;

const columns = `j.id, j.project_id, p.ref as project_ref, p.name as project_name,
  f.function_id, fn.name as function_name, j.type, j.status, j.progress,
  j.attempt, j.max_attempts, j.error_code, left(j.error_message, ${maxMessageLength}) as error_message, j.request_id,
  j.worker_id, j.created_at, nullif(j.next_run_at, 'infinity') as next_run_at, j.started_at, j.finished_at`;

/** Names of the jobs' projects and functions. */
const names = `left join projects p on p.id = j.project_id
  cross join lateral (select ${functionOf('j')} as function_id) f
  left join functions fn on fn.id = f.function_id::uuid`;

const countUpTo = async (db: Queryable, filter: JobFilter): Promise<number> => {
  const [row] = await db.query<{ count: number }>(
    `select count(*)::int as count from (select from jobs j where ${filterSql} limit ${maxCounted + 1}) found`,
    filterValues(filter),
  );
  return row?.count ?? 0;
};

/**
 * Jobs of all projects, newest first.
 * @throws {ServiceError} `validation_failed` when nothing bounds the search and it takes too long
 */
export const searchJobs = (
  db: ControlDb,
  filter: JobFilter,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<FoundJobs> =>
  bounded(db, async (tx) => {
    // Each order is that of the index that the filter leads to.
    const order = filter.projectIds === undefined ? 'j.id desc' : 'j.created_at desc, j.id desc';
    const jobs = await tx.query<FoundJob>(
      `with j as materialized (
         select * from jobs j where ${filterSql} order by ${order} limit $${filterSize + 1} offset $${filterSize + 2})
       select ${columns} from j ${names} order by ${order}`,
      [...filterValues(filter), limit, offset],
    );
    const total = await countUpTo(tx, filter);
    return { jobs, total: Math.min(total, maxCounted), totalIsExact: total <= maxCounted };
  });

interface Attempt {
  readonly attempt: number;
  readonly worker_id: string | null;
  readonly started_at: Date | null;
  readonly ended_at: Date;
  readonly error_code: string;
  readonly error_message: string;
}

interface LogLine {
  readonly at: Date;
  readonly level: string;
  readonly message: string;
}

/** A job with all that is kept about it. */
export interface JobDetail extends FoundJob {
  readonly crashes: number;
  readonly cancel_requested_at: Date | null;
  readonly traceparent: string | null;
  /** JSON text, its first 64 KiB; likewise the result. */
  readonly payload: string;
  readonly payload_length: number;
  readonly result: string | null;
  readonly result_length: number | null;
  readonly attempts: readonly Attempt[];
  /** The latest 500 lines, oldest first. */
  readonly logs: readonly LogLine[];
}

const maxTextLength = 65_536;
const maxLines = 500;

/** @throws {ServiceError} `not_found` */
export const jobDetail = async (db: Queryable, id: string): Promise<JobDetail> => {
  const [row, attempts, logs] = await Promise.all([
    maybeOne(
      db.query<Omit<JobDetail, 'attempts' | 'logs'>>(
        `select ${columns.replace(/left\([^)]*\) as error_message/, 'j.error_message')}, j.crashes,
           j.cancel_requested_at, j.traceparent, left(j.data, $2) as payload, length(j.data) as payload_length,
           left(j.result, $2) as result, length(j.result) as result_length
         from jobs j ${names} where j.id = $1`,
        [id, maxTextLength],
      ),
    ),
    db.query<Attempt>(
      `select attempt, worker_id, started_at, ended_at, error_code, error_message
       from job_attempts where job_id = $1 order by id`,
      [id],
    ),
    lastLogLines(db, id, maxLines).then((lines) => lines.map(({ ts, ...line }) => ({ at: new Date(ts), ...line }))),
  ]);
  if (row === undefined) throw notFound('job');
  return { ...row, attempts, logs };
};

/** @throws {ServiceError} `not_found` */
export const projectOfJob = async (db: Queryable, id: string): Promise<string> => {
  const row = await maybeOne(db.query<{ project_id: string }>('select project_id from jobs where id = $1', [id]));
  if (row === undefined) throw notFound('job');
  return row.project_id;
};

/** A project, and how many of its jobs a pause would concern. */
interface FoundProject {
  readonly project_id: string;
  readonly ref: string;
  readonly name: string;
  readonly plan: string;
  /** Counted up to 100,000. */
  readonly waiting: number;
  readonly running: number;
}

const maxCountedJobs = 100_000;

/**
 * Projects by id, ref, slug or name, the newest 50, with their jobs of one type or of all.
 * @throws {ServiceError} `validation_failed` when counting takes longer than three seconds
 */
export const findProjects = (
  db: ControlDb,
  { project, type }: { readonly project: string; readonly type: string | undefined },
): Promise<FoundProject[]> =>
  bounded(db, async (tx) => {
    const { projectIds } = await idsOfNamed(tx, { project });
    return tx.query<FoundProject>(
      `select p.id as project_id, p.ref, p.name, p.plan,
         (select count(*)::int from (select from jobs j where j.project_id = p.id and j.status = 'queued'
           and ($2::text is null or j.type = $2) limit ${maxCountedJobs}) queued) as waiting,
         (select count(*)::int from jobs j where j.project_id = p.id and j.status = 'running'
           and ($2::text is null or j.type = $2)) as running
       from projects p where p.id = any ($1) and p.deleted_at is null order by p.created_at desc`,
      [projectIds, type ?? null],
    );
  });
