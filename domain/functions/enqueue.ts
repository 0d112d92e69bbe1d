import { requireWaitingBytes, type WaitingBytes, queueFull } from '#domain/jobs/accept.ts';
import { admitKeyed } from '#domain/jobs/concurrency.ts';
import { type NewJobRow, type Starter, insertJobs } from '#domain/jobs/store.ts';
import { claimUniqueKeys } from '#domain/jobs/unique-keys.ts';
import { type MonthlyCaps, capExceeded } from '#domain/jobs/usage.ts';
import { waitingBytesFrom } from '#domain/projects/plans.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Config } from '#lib/config.ts';
import { type ControlDb, type Queryable, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import type { JobRef } from '#queues/define.ts';
import { type EnqueueOptions, maxDepth } from '#queues/enqueue-options.ts';
import { type FunctionCaller, functionInvoke } from '#queues/function-invoke.ts';
import type { Gate } from '#queues/gate/types.ts';
import { noteAccepted } from '#queues/metrics.ts';
import { monthlyCaps, requireActive, requireTaken } from './functions.ts';
import { type FunctionVersion, presentVersion } from './store.ts';

/** One job that somebody enqueues. */
interface EnqueuedJob {
  /** Left out: a new one. */
  readonly id?: string;
  /** JSON text. */
  readonly payload: string;
  readonly options: EnqueueOptions;
}

export interface EnqueueOrder {
  readonly by: { readonly id: string } | { readonly slug: string };
  readonly jobs: readonly EnqueuedJob[];
  readonly trigger: 'api' | 'dashboard' | 'job' | 'event';
  readonly requestId: string;
  readonly startedBy?: Starter | undefined;
  /** Left out: not at the function's public address. */
  readonly caller?: FunctionCaller | undefined;
  /** How many jobs stand behind these that each enqueued the next. */
  readonly depth: number;
}

export interface EnqueueLimits {
  readonly caps: MonthlyCaps;
  readonly waitingBytes: WaitingBytes;
  /** How many jobs of a project may wait (PLINTH_WAITING_JOBS). */
  readonly waitingJobs: number;
}

export const enqueueLimitsFrom = (config: Config): EnqueueLimits => ({
  caps: monthlyCaps(config),
  waitingBytes: waitingBytesFrom(config),
  waitingJobs: config.PLINTH_WAITING_JOBS,
});

/** Which job stands for one that was enqueued. */
export interface Enqueued {
  readonly job_id: string;
  /** `duplicate`: an earlier job has the unique key; the id is its, and no other one was made. */
  readonly status: 'queued' | 'duplicate';
}

/** The jobs that go to the gate once their rows are committed. */
export interface Admissions {
  readonly projectId: string;
  readonly ready: readonly JobRef[];
  readonly keys: readonly string[];
}

const jobLoop = (): ServiceError =>
  new ServiceError('job_loop', `${maxDepth} jobs have each enqueued the next. Nothing was accepted.`, {
    hint: 'A job that goes on for ever is a schedule, or needs an end.',
  });

/** @throws {ServiceError} `job_loop` */
export const requireDepth = (depth: number): void => {
  if (depth > maxDepth) throw jobLoop();
};

/**
 * Asked of the rows, since those that wait for their time are not at the gate.
 * @throws {ServiceError} `queue_full`
 */
export const requireRoom = async (
  db: Queryable,
  projectId: string,
  wanted: number,
  waitingJobs: number,
): Promise<void> => {
  const { max, queued } = await one(
    db.query<{ max: number; queued: number }>(
      `select most.max, (select count(*)::int from (
           select from jobs where project_id = $1 and type = $2 and status = 'queued' limit most.max + 1) q) as queued
       from (select coalesce((select waiting from job_limits where project_id = $1 and type = $2), $3::float8) as max) most`,
      [projectId, functionInvoke.type, waitingJobs],
      'room-to-enqueue',
    ),
  );
  if (queued + wanted > max) throw queueFull(functionInvoke.type);
};

/** The first of several jobs with the same key stands for all of them. */
const claim = async (
  db: Queryable,
  functionId: string,
  jobs: readonly (EnqueuedJob & { readonly id: string })[],
): Promise<Enqueued[]> => {
  const first = new Map<string, { readonly id: string; readonly forMs: number | undefined }>();
  for (const { id, options } of jobs) {
    const { unique_key: key, unique_for_ms: forMs } = options;
    if (key !== undefined && !first.has(key)) first.set(key, { id, forMs });
  }
  const winners = first.size === 0 ? new Map<string, string>() : await claimUniqueKeys(db, functionId, first);
  return jobs.map(({ id, options: { unique_key: key } }) => {
    const winner = (key === undefined ? undefined : winners.get(key)) ?? id;
    return { job_id: winner, status: winner === id ? 'queued' : 'duplicate' };
  });
};

const rowOf = (
  { id: projectId, plan }: Pick<Project, 'id' | 'plan'>,
  order: EnqueueOrder & Pick<EnqueueLimits, 'caps'>,
  fn: FunctionVersion,
  { id, payload, options }: EnqueuedJob & { readonly id: string },
): NewJobRow => {
  const {
    unique_key: _key,
    unique_for_ms: _for,
    retry = fn.retry,
    concurrency_key: key,
    concurrency,
    ...rest
  } = options;
  const { trigger, caller, depth } = order;
  const keyed = key === undefined ? {} : { concurrency_key: key, concurrency: concurrency ?? 1 };
  const chosen = { ...rest, ...keyed, ...(retry && { retry }), ...(depth > 0 && { depth }) };
  return {
    id,
    projectId,
    type: functionInvoke.type,
    data: JSON.stringify({ function_id: fn.id, version: fn.version, trigger, payload, ...(caller && { caller }) }),
    maxAttempts: Math.max(functionInvoke.maxAttempts, retry?.max_attempts ?? 0),
    requestId: order.requestId,
    startedBy: order.startedBy,
    monthlyLimit: order.caps[plan],
    options: Object.keys(chosen).length === 0 ? undefined : chosen,
  };
};

/**
 * Writes the rows of jobs that run a function, all of them or none: in the caller's transaction. What it answers second
 * is to be given to `admitEnqueued` when that is committed.
 * @throws {ServiceError} `not_found`, `project_not_ready`, `unauthenticated`, `forbidden`, `job_loop`, `queue_full`,
 * `monthly_cap_exceeded`
 */
export const enqueue = async (
  db: Queryable,
  project: Pick<Project, 'id' | 'plan' | 'status'>,
  order: EnqueueOrder,
  limits: EnqueueLimits,
): Promise<{ readonly enqueued: readonly Enqueued[]; readonly admissions: Admissions }> => {
  requireDepth(order.depth);
  const fn = await presentVersion(db, project.id, order.by);
  if (fn === undefined) throw notFound('function');
  requireActive(project);
  if (order.caller !== undefined) requireTaken(fn.access, order.caller);
  const jobs = order.jobs.map((job) => ({ ...job, id: job.id ?? newId() }));
  const enqueued = await claim(db, fn.id, jobs);
  const rows = jobs
    .filter((_, place) => enqueued[place]?.status === 'queued')
    .map((job) => rowOf(project, { ...order, caps: limits.caps }, fn, job));
  await requireRoom(db, project.id, rows.length, limits.waitingJobs);
  await requireWaitingBytes(db, limits.waitingBytes, project.id, rows);
  const taken = await insertJobs(db, rows);
  if (taken.size < rows.length) throw capExceeded(limits.caps[project.plan]);
  return { enqueued, admissions: admissionsOf(project.id, rows, taken) };
};

const admissionsOf = (
  projectId: string,
  rows: readonly NewJobRow[],
  taken: ReadonlyMap<string, boolean>,
): Admissions => ({
  projectId,
  ready: rows
    .filter(({ id }) => taken.get(id) === true)
    .map(({ id, type, options }) => ({ id, type, projectId, priority: options?.priority })),
  keys: [...new Set(rows.flatMap(({ options }) => options?.concurrency_key ?? []))],
});

/** Never fails: what the gate does not take now, the reconciler brings to it within seconds. */
export const admitEnqueued = async (
  { db, gate, log }: { readonly db: ControlDb; readonly gate: Pick<Gate, 'admit'>; readonly log: Log },
  { projectId, ready, keys }: Admissions,
): Promise<void> => {
  try {
    const keyed = keys.length === 0 ? [] : await admitKeyed(db, { type: functionInvoke.type, projectId, keys });
    await Promise.all([...ready, ...keyed].map((ref) => gate.admit(ref, false)));
  } catch (error) {
    log.debug({ err: error }, 'jobs that were enqueued wait for the reconciler');
  }
  ready.forEach(({ type }) => noteAccepted(type));
};
