/*
 * A job from its acceptance to its end. This file has what callers do with jobs: run, join, cancel, retry. accept.ts
 * writes the row and then asks the gate; store.ts has the row, its start and its end; changes.ts has cancellations,
 * retries and expiry. queue-shards.ts is for the leader of a shard; limits.ts and usage.ts bound what runs and what a
 * month may have; filter.ts, list.ts, bulk.ts and project-queue.ts are for those who look for jobs or change many;
 * follow.ts and logs.ts are for those who watch a job; abandon.ts ends the jobs of a deleted project.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { currentTraceparent, traced } from '#lib/tracing.ts';
import type { JobOutcome } from '#queues/define.ts';
import type { Gate, Place } from '#queues/gate/types.ts';
import { isHolding } from '#queues/flow-control.ts';
import { noteAccepted, noteFinished, noteReply } from '#queues/metrics.ts';
import { AnswerStream } from '#queues/answer-streams.ts';
import type { KnownEnd, Outcomes, Replies } from '#queues/replies.ts';
import type { Signals } from '#queues/signals.ts';
import type { Abandonment } from '#domain/projects/projects.ts';
import { endTeller } from './abandon.ts';
import { type AcceptDeps, type JobRequest, acceptWith } from './accept.ts';
import { type Changed, cancelAllWaiting, cancelWaiting, markCancelRequested, revive } from './changes.ts';
import { type JobRow, type NewJobRow, findJob, hasEnded, outcomeOf, recordEnds, refOf } from './store.ts';
import { admitKeyed } from './concurrency.ts';
import { awaitStart } from './flow.ts';
import { hasStep } from './steps.ts';
import { capExceeded, takeOne } from './usage.ts';

/** Why a job waits, and its place among the waiting jobs of its project (1-based; null when it waits for a time). */
export interface Standing {
  readonly position: number | null;
  readonly reason:
    | NonNullable<Place['reason']>
    | NonNullable<JobRow['held_for']>
    | 'retry_backoff'
    | 'delayed'
    | 'concurrency'
    | 'step_sleep'
    | 'step_event';
}

const waitsForItsTime = (row: JobRow): boolean => row.next_run_at !== null;

const standingOf = (row: JobRow, place: Place | undefined): Standing | null => {
  if (row.status === 'waiting')
    return { position: null, reason: row.step_wait === 'event' ? 'step_event' : 'step_sleep' };
  if (row.status !== 'queued') return null;
  if (row.held_for !== null) return { position: null, reason: row.held_for };
  if (row.next_run_at === Infinity) return { position: null, reason: 'concurrency' };
  if (waitsForItsTime(row)) return { position: null, reason: row.attempt === 0 ? 'delayed' : 'retry_backoff' };
  // One that was handed over, or is about to be found by the gate, is next.
  return place ? { position: place.position ?? 1, reason: place.reason ?? 'queue' } : null;
};

/** Where jobs stand in line, in their order; null for those that do not wait, and for all while Redis is away. */
const placesWith =
  (gate: Pick<Gate, 'places'>) =>
  async (rows: readonly JobRow[]): Promise<readonly (Standing | null)[]> => {
    const waiting = rows.filter((row) => row.status === 'queued' && !waitsForItsTime(row)).map(refOf);
    // It is returned beside the job: an unavailable Redis must not keep anybody from reading rows.
    const places = waiting.length === 0 ? [] : await gate.places(waiting).catch(() => []);
    const byId = new Map(waiting.map(({ id }, i) => [id, places[i]]));
    return rows.map((row) => standingOf(row, byId.get(row.id)));
  };

export type { JobRequest } from './accept.ts';

export interface AcceptedJob {
  readonly id: string;
  /** Null when `waitMs` was 0 or passed before the job ended, or answered; the job goes on. */
  readonly outcome: JobOutcome | null;
  /** The answer that the run sends while it goes on, in place of an outcome. */
  readonly stream?: AnswerStream;
}

export interface Jobs {
  /**
   * Accepts a job: its row first, then the gate; then waits for its end.
   * @param waitMs 0: do not wait
   * @throws {ServiceError} `dependency_unavailable` with nothing accepted when Postgres or Redis is away, `queue_full`,
   * `monthly_cap_exceeded`; `rate_limited` when its function may not start within that time
   */
  readonly run: (request: JobRequest, waitMs: number) => Promise<AcceptedJob>;
  /** Waits for a job that somebody else began. */
  readonly join: (projectId: string, jobId: string, waitMs: number) => Promise<AcceptedJob>;
  /** @throws {ServiceError} `not_found` */
  readonly get: (projectId: string, jobId: string) => Promise<JobRow>;
  /** Where jobs stand in line, in their order; null for those that do not wait, and for all while Redis is away. */
  readonly places: (rows: readonly JobRow[]) => Promise<readonly (Standing | null)[]>;
  /**
   * Ends a job that waits; has one that runs stopped, and waits a moment for its end.
   * @throws {ServiceError} `not_found`; `conflict` when it has ended
   */
  readonly cancel: (projectId: string, jobId: string) => Promise<JobRow>;
  /**
   * Ends those of some jobs that wait, in one statement; those that run, or are being changed, stay as they are.
   * @param jobIds at most some hundred: so long their rows are locked
   * @returns the ids of those that ended
   */
  readonly cancelAllWaiting: (jobIds: readonly string[]) => Promise<ReadonlySet<string>>;
  /**
   * Runs a job again that failed, died, expired or was cancelled, under the same id.
   * @param within the caller's transaction; what Redis is told follows its commit
   * @throws {ServiceError} `not_found`; `conflict` in any other state; `monthly_cap_exceeded`; `validation_failed` when
   * it has no such step
   */
  readonly retry: (projectId: string, jobId: string, within?: Within) => Promise<JobRow>;
  /** Notifies waiting callers of ends that were recorded elsewhere. */
  readonly notifyEnded: Abandonment['onEnded'];
}

interface Within {
  readonly db: Queryable;
  readonly afterCommit: (work: () => Promise<void>) => void;
  /** Steps from this one on run again; left out: those without a result. */
  readonly fromStep?: string | undefined;
  /** The job's new run counts as one of its project's this month; left out: it does not. */
  readonly monthly?: { readonly type: string; readonly limit: number | null };
}

interface JobsDeps extends Pick<AcceptDeps, 'waitingBytes' | 'waitingJobs'> {
  readonly db: ControlDb;
  readonly gate: Gate;
  readonly replies: Replies;
  readonly outcomes: Outcomes;
  readonly signals: Signals;
  readonly log: Log;
  /** Whether Redis answers just now: asked before a row is written. */
  readonly queueIsUp: () => boolean;
}

/** The row as it will be once the end is recorded: the same time, never before its start. */
const withEnd = (row: JobRow, { outcome, finishedAt }: KnownEnd): JobRow => ({
  ...row,
  status: outcome.status,
  result: outcome.result,
  error_code: outcome.error?.code ?? null,
  error_message: outcome.error?.message ?? null,
  finished_at: row.started_at !== null && row.started_at > finishedAt ? row.started_at : finishedAt,
});

const queueDown = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'The job queue is down. Nothing was accepted; try again shortly.', {
    headers: { 'Retry-After': '2' },
  });

const cancelPatienceMs = 2000;

type Steering = Pick<Jobs, 'cancel' | 'cancelAllWaiting' | 'retry' | 'places'>;

/**
 * An outcome that callers were notified of is recorded before the job is changed: its worker may be about to record it.
 */
const recordKnownEnd = async (
  { outcomes }: Pick<JobsDeps, 'outcomes'>,
  db: Queryable,
  { projectId, jobId }: { readonly projectId: string; readonly jobId: string },
): Promise<void> => {
  const row = await findJob(db, projectId, jobId);
  if (row?.status !== 'running' || row.run_id === null) return;
  const end = await outcomes.find(jobId, row.run_id).catch(() => null);
  if (end !== null) await recordEnds(db, [{ id: jobId, runId: row.run_id, ...end }]);
};

const warnerOf =
  (log: Log) =>
  (what: string) =>
  (error: unknown): void =>
    log.warn({ err: error }, what);

/** Notifies the gate, waiting callers and listeners of a cancelled waiting job. */
const cancelTeller = ({ gate, outcomes, signals, log }: JobsDeps) => {
  const otherwise = warnerOf(log);
  return async (ended: Changed): Promise<JobRow> => {
    const outcome = outcomeOf(ended);
    noteFinished(ended.type, ended.status);
    await gate.withdraw(refOf(ended)).catch(otherwise('a cancelled job leaves the gate later'));
    if (outcome) await outcomes.notify(ended.id, outcome, ended.reply_to).catch(otherwise('a caller was not notified'));
    signals.announce(ended.id, { event: 'status', status: ended.status, attempt: ended.attempt });
    return ended;
  };
};

/** @throws {ServiceError} `validation_failed` */
const requireStep = async (db: Queryable, jobId: string, name: string | undefined): Promise<void> => {
  if (name === undefined || (await hasStep(db, jobId, name))) return;
  throw new ServiceError('validation_failed', 'The job has no step of that name.', {
    details: [{ path: 'from_step', message: 'must be the name of one of its steps' }],
  });
};

/** @throws {ServiceError} `monthly_cap_exceeded` */
const countAgain = async ({ db, monthly }: Within, { type, project_id: projectId }: JobRow): Promise<void> => {
  if (type !== monthly?.type || (await takeOne(db, projectId, type, monthly.limit))) return;
  throw capExceeded(monthly.limit);
};

/** A job with a concurrency key waits for a place of its key first. */
const admitRevived = async ({ db, gate }: Pick<JobsDeps, 'db' | 'gate'>, row: JobRow): Promise<void> => {
  const { type, project_id: projectId, concurrency_key: key } = row;
  // The leader of its shard asks its function.
  if (row.held_for !== null) return;
  const refs = key === null ? [refOf(row)] : await admitKeyed(db, { type, projectId, keys: [key] });
  await Promise.all(refs.map((ref) => gate.admit(ref, false)));
};

/** The operations that callers may do on a job. */
const steeringWith = (deps: JobsDeps, get: Jobs['get']): Steering => {
  const { db, gate, outcomes, signals, log } = deps;
  const otherwise = warnerOf(log);
  const notifyCancelled = cancelTeller(deps);

  const untilEnded = async (row: JobRow): Promise<JobRow> => {
    const deadline = Date.now() + cancelPatienceMs;
    for (let delayMs = 20; Date.now() < deadline; delayMs = Math.min(delayMs * 2, 250)) {
      await pause(delayMs);
      const now = await get(row.project_id, row.id);
      if (hasEnded(now)) return now;
    }
    return get(row.project_id, row.id);
  };

  const refuse = async (projectId: string, jobId: string, why: (row: JobRow) => string): Promise<never> => {
    throw new ServiceError('conflict', why(await get(projectId, jobId)));
  };

  return {
    cancel: async (projectId, jobId) => {
      await recordKnownEnd(deps, db, { projectId, jobId });
      // It may move from one state to the other between the two statements, and back again.
      for (let tries = 0; tries < 3; tries += 1) {
        const ended = await cancelWaiting(db, projectId, jobId);
        if (ended) return notifyCancelled(ended);
        const running = await markCancelRequested(db, projectId, jobId);
        if (running) {
          await signals.requestCancel(jobId).catch(otherwise('a cancellation is announced later'));
          return untilEnded(running);
        }
        if (hasEnded(await get(projectId, jobId))) break;
      }
      return refuse(projectId, jobId, (row) => `The job is ${row.status} already.`);
    },
    cancelAllWaiting: async (jobIds) => {
      const ended = await cancelAllWaiting(db, jobIds);
      await Promise.all(ended.map(notifyCancelled));
      return new Set(ended.map(({ id }) => id));
    },
    retry: async (projectId, jobId, within) => {
      const { db: own, fromStep }: Pick<Within, 'db' | 'fromStep'> = within ?? { db };
      await recordKnownEnd(deps, own, { projectId, jobId });
      await requireStep(own, jobId, fromStep);
      const row = await revive(own, projectId, jobId, fromStep);
      if (row === undefined) {
        return refuse(projectId, jobId, ({ status }) => `A job that is ${status} cannot be run again.`);
      }
      if (within) await countAgain(within, row);
      const notify = async (): Promise<void> => {
        await outcomes.forget(jobId).catch(() => undefined);
        await admitRevived(deps, row).catch(otherwise('a job that was run again is admitted later'));
        noteAccepted(row.type);
      };
      if (within) within.afterCommit(notify);
      else await notify();
      return row;
    },
    places: placesWith(gate),
  };
};

const rowOf = ({ job, data, ...request }: JobRequest, id: string): NewJobRow => ({
  id,
  projectId: request.projectId,
  type: job.type,
  data: JSON.stringify(job.data.parse(data)),
  maxAttempts: job.maxAttempts,
  requestId: request.requestId,
  monthlyLimit: request.monthlyLimit,
  startedBy: request.startedBy,
});

/** A job that nobody waits for starts when its function says so. */
const heldBy = (flow: JobRequest['flow'], row: NewJobRow): NewJobRow =>
  flow && isHolding(flow) ? { ...row, options: { ...row.options, flow_of: flow.functionId } } : row;

export const createJobs = (deps: JobsDeps): Jobs => {
  const { db, replies, outcomes } = deps;
  const accept = acceptWith(deps);

  const get: Jobs['get'] = async (projectId, jobId) => {
    const row = await findJob(db, projectId, jobId);
    if (row === undefined) throw notFound('job');
    if (row.status !== 'running' || row.run_id === null) return row;
    // It may have ended a moment ago and be on its way into Postgres.
    const end = await outcomes.find(jobId, row.run_id).catch(() => null);
    if (end !== null) return withEnd(row, end);
    // Or its end came into Postgres after the row was read, and its outcome was removed before it was looked for.
    return (await findJob(db, projectId, jobId)) ?? row;
  };

  /** A reply can get lost with its stream: when the time is over, the row has the last word. */
  const endedMeanwhile = async (projectId: string, jobId: string): Promise<JobOutcome | null> => {
    const row = await get(projectId, jobId).catch(() => null);
    return row === null ? null : outcomeOf(row);
  };

  return {
    get,
    ...steeringWith(deps, get),
    notifyEnded: endTeller(outcomes),
    run: async (request, waitMs) => {
      const { job, projectId } = request;
      if (!deps.queueIsUp()) throw queueDown();
      const began = performance.now();
      if (waitMs > 0) await awaitStart(db, request.flow, waitMs);
      const id = newId();
      const row = waitMs > 0 ? rowOf(request, id) : heldBy(request.flow, rowOf(request, id));
      const waiter = waitMs > 0 ? replies.wait(id, Math.max(1, waitMs - (performance.now() - began))) : null;
      const replyTo = waiter && replies.stream;
      try {
        await traced('job accept', { 'plinth.job.type': job.type, 'plinth.job.id': id }, null, () =>
          accept(request, { ...row, replyTo, traceparent: currentTraceparent() }),
        );
      } catch (error) {
        waiter?.stop();
        throw error;
      }
      if (waiter === null) return { id, outcome: null };
      const outcome = await Promise.race([waiter.outcome, waiter.started]);
      if (outcome instanceof AnswerStream) return { id, outcome: null, stream: outcome };
      if (outcome) noteReply(job.type, performance.now() - began);
      return { id, outcome: outcome ?? (await endedMeanwhile(projectId, id)) };
    },
    join: async (projectId, jobId, waitMs) => {
      const deadline = Date.now() + waitMs;
      for (let delayMs = 20; ; delayMs = Math.min(delayMs * 2, 500)) {
        const row = await get(projectId, jobId).catch((error: unknown) => {
          // The caller that had accepted the job had to take it back.
          throw error instanceof ServiceError && error.code === 'not_found' ? queueDown() : error;
        });
        const outcome = outcomeOf(row);
        if (outcome) return { id: jobId, outcome };
        // It may sleep for days.
        if (row.status === 'waiting') return { id: jobId, outcome: null };
        if (Date.now() + delayMs > deadline) return { id: jobId, outcome: null };
        await pause(delayMs);
      }
    },
  };
};
