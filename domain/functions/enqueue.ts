import { requireRoom, requireWaitingBytes, type WaitingBytes } from '#domain/jobs/accept.ts';
import { admitKeyed } from '#domain/jobs/concurrency.ts';
import { type NewJobRow, type Starter, insertAlikeJobs } from '#domain/jobs/store.ts';
import { type Debounced, replaceDebounced } from '#domain/jobs/debounce.ts';
import { type Released, releaseHeld } from '#domain/jobs/flow.ts';
import { claimUniqueKeys } from '#domain/jobs/unique-keys.ts';
import { type MonthlyCaps, capExceeded } from '#domain/jobs/usage.ts';
import { waitingBytesFrom } from '#domain/projects/plans.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Config } from '#lib/config.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import type { JobRef } from '#queues/define.ts';
import { type EnqueueOptions, maxDepth } from '#queues/enqueue-options.ts';
import { isControlled, isHolding } from '#queues/flow-control.ts';
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
  /** The function that says when they may start; left out: nobody does. */
  readonly heldBy?: string;
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
 * The space that unique keys of a caller lie in: all but the project itself have spaces of their own. Strangers with a
 * publishable key could take the keys of its jobs, or replace what a job that it debounces was given.
 */
const spaceOf = (caller: FunctionCaller | undefined): string => {
  if (caller === undefined || caller.kind === 'secret') return '';
  return caller.kind === 'user' ? `user ${String(caller.user?.['sub'])} ` : `${caller.kind} `;
};

const inSpace = (
  space: string,
  options: EnqueueOptions,
  { debounce_ms: debounceMs }: FunctionVersion,
): EnqueueOptions =>
  space === '' || (options.unique_key === undefined && debounceMs === null)
    ? options
    : { ...options, unique_key: `${space}${options.unique_key ?? ''}` };

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

interface Accepted {
  readonly enqueued: readonly Enqueued[];
  /** The new ones. */
  readonly rows: readonly NewJobRow[];
}

type Identified = EnqueuedJob & { readonly id: string };

const claimed = async (
  db: Queryable,
  functionId: string,
  jobs: readonly Identified[],
  asRow: (job: Identified) => NewJobRow,
): Promise<Accepted> => {
  const enqueued = await claim(db, functionId, jobs);
  return { enqueued, rows: jobs.filter((_, place) => enqueued[place]?.status === 'queued').map(asRow) };
};

/** The last of several jobs with one key stands for all of them, under the id of the first that waits. */
const debounced = async (
  db: Queryable,
  functionId: string,
  jobs: readonly Identified[],
  asRow: (job: Identified) => NewJobRow,
): Promise<Accepted> => {
  const byKey = Map.groupBy(jobs, ({ options }) => options.unique_key ?? '');
  const latest = [...byKey].map(([key, own]): Debounced => {
    const [first, last] = [own[0], own.at(-1)];
    if (first === undefined || last === undefined) throw new Error('a key has no jobs');
    return { key, row: { ...asRow(last), id: first.id } };
  });
  const waiting = await replaceDebounced(db, functionId, latest);
  const idOf = (key: string): string => waiting.get(key) ?? byKey.get(key)?.[0]?.id ?? '';
  return {
    enqueued: jobs.map(({ id, options }) => {
      const jobId = idOf(options.unique_key ?? '');
      return { job_id: jobId, status: jobId === id ? 'queued' : 'duplicate' };
    }),
    rows: latest.filter(({ key }) => !waiting.has(key)).map(({ row }) => row),
  };
};

/** When jobs of the function start, as the function has it. */
const flowOf = (fn: FunctionVersion, uniqueKey = ''): NewJobRow['options'] => ({
  ...(isControlled(fn) && { flow_of: fn.id }),
  ...(fn.debounce_ms !== null && { debounce_key: uniqueKey, debounce_ms: fn.debounce_ms }),
});

const chosenOf = (fn: FunctionVersion, depth: number, options: EnqueueOptions): NonNullable<NewJobRow['options']> => {
  const { unique_key, unique_for_ms: _for, retry = fn.retry, concurrency_key: key, concurrency, ...rest } = options;
  const keyed = key === undefined ? {} : { concurrency_key: key, concurrency: concurrency ?? 1 };
  return { ...rest, ...keyed, ...flowOf(fn, unique_key), ...(retry && { retry }), ...(depth > 0 && { depth }) };
};

const rowOf = (
  { id: projectId, plan }: Pick<Project, 'id' | 'plan'>,
  order: EnqueueOrder & Pick<EnqueueLimits, 'caps'>,
  fn: FunctionVersion,
  { id, payload, options }: EnqueuedJob & { readonly id: string },
): NewJobRow => {
  const { trigger, caller, depth } = order;
  const chosen = chosenOf(fn, depth, options);
  return {
    id,
    projectId,
    type: functionInvoke.type,
    data: JSON.stringify({ function_id: fn.id, version: fn.version, trigger, payload, ...(caller && { caller }) }),
    maxAttempts: Math.max(functionInvoke.maxAttempts, chosen.retry?.max_attempts ?? 0),
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
  const space = spaceOf(order.caller);
  const jobs = order.jobs.map(({ id = newId(), payload, options }) => ({
    id,
    payload,
    options: inSpace(space, options, fn),
  }));
  const asRow = (job: EnqueuedJob & { readonly id: string }): NewJobRow =>
    rowOf(project, { ...order, caps: limits.caps }, fn, job);
  const { enqueued, rows } =
    fn.debounce_ms === null ? await claimed(db, fn.id, jobs, asRow) : await debounced(db, fn.id, jobs, asRow);
  await requireRoom(db, { type: functionInvoke.type, projectId: project.id }, rows.length, limits.waitingJobs);
  await requireWaitingBytes(db, limits.waitingBytes, project.id, rows);
  const taken = await insertAlikeJobs(db, rows);
  if (taken.size < rows.length) throw capExceeded(limits.caps[project.plan]);
  const admissions = admissionsOf(project.id, rows, taken);
  return { enqueued, admissions: isHolding(fn) ? { ...admissions, heldBy: fn.id } : admissions };
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
  { projectId, ready, keys, heldBy }: Admissions,
): Promise<void> => {
  try {
    // Starts of the next second are given away by the leader of the shard, which is there when they come.
    const released: Released | null = heldBy === undefined ? null : await releaseHeld(db, heldBy, 0);
    const wanting = [...keys, ...(released?.keyed ?? []).map(({ key }) => key)];
    const keyed =
      wanting.length === 0 ? [] : await admitKeyed(db, { type: functionInvoke.type, projectId, keys: wanting });
    const all = [...ready, ...(released?.ready ?? []), ...keyed];
    await Promise.all(all.map((ref) => gate.admit(ref, false)));
  } catch (error) {
    log.debug({ err: error }, 'jobs that were enqueued wait for the reconciler');
  }
  ready.forEach(({ type }) => noteAccepted(type));
};
