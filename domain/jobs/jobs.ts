import type { z } from 'zod';
import { createBatcher } from '#lib/batch.ts';
import type { ControlDb, Tx } from '#lib/control-db.ts';
import { ServiceError, isDependencyFailure, notFound } from '#lib/errors.ts';
import { systemActor } from '#domain/audit/actor.ts';
import { newId } from '#lib/ids.ts';
import type { JobDefinition, JobOutcome } from '#queues/define.ts';
import type { Producer } from '#queues/producer.ts';
import type { Outcomes, Replies } from '#queues/replies.ts';
import { inlineDataLength } from './message.ts';
import { type JobRow, type NewJobRow, deleteQueuedJob, errorOf, findJob, insertJobs } from './store.ts';

// Longer rows go by themselves: together they would outgrow what one statement can hold.
const batchedDataLength = 65_536;

/** A job that someone asks for. */
export interface JobRequest<Job extends JobDefinition = JobDefinition> {
  readonly job: Job;
  readonly projectId: string;
  readonly requestId: string;
  readonly data: z.input<Job['data']>;
  /** What must be kept together with the job's row, or not at all. */
  readonly alongside?: (tx: Tx, jobId: string) => Promise<void>;
  /** Who is behind `alongside`, for the audit log. */
  readonly actor?: Readonly<Record<string, string>>;
  /** Takes back what `alongside` did, when the job could not reach its queue. */
  readonly undo?: (tx: Tx) => Promise<void>;
}

export interface AcceptedJob {
  readonly id: string;
  /** Null when `waitMs` was 0 or passed before the job ended; the job goes on. */
  readonly outcome: JobOutcome | null;
}

export interface Jobs {
  /**
   * Accepts a job: its row first, then the queue; then waits for its end.
   * @param waitMs 0: do not wait
   * @throws {ServiceError} `dependency_unavailable` with nothing accepted when Postgres or Redis is away
   */
  readonly run: (request: JobRequest, waitMs: number) => Promise<AcceptedJob>;
  /** Waits for a job that somebody else began. */
  readonly join: (projectId: string, jobId: string, waitMs: number) => Promise<AcceptedJob>;
  /** @throws {ServiceError} `not_found` */
  readonly get: (projectId: string, jobId: string) => Promise<JobRow>;
}

export interface JobsDeps {
  readonly db: ControlDb;
  readonly producer: Producer;
  readonly replies: Replies;
  readonly outcomes: Outcomes;
  /** Whether Redis answers just now: asked before a row is written. */
  readonly queueIsUp: () => boolean;
}

const finalStatuses = new Set(['succeeded', 'failed', 'cancelled', 'expired', 'dead']);

const outcomeOf = (row: JobRow): JobOutcome => ({
  status: row.status === 'succeeded' || row.status === 'dead' ? row.status : 'failed',
  result: row.result,
  error: errorOf(row),
});

const withOutcome = (row: JobRow, outcome: JobOutcome): JobRow => ({
  ...row,
  status: outcome.status,
  result: outcome.result,
  error_code: outcome.error?.code ?? null,
  error_message: outcome.error?.message ?? null,
  finished_at: new Date(),
});

const queueDown = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'The job queue is down. Nothing was accepted; try again shortly.', {
    headers: { 'Retry-After': '2' },
  });

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

type Accept = (request: JobRequest, row: NewJobRow, replyTo: string | null) => Promise<void>;

/** The row first, then the queue; a job that does not reach its queue is taken back. */
const acceptWith = ({ db, producer }: JobsDeps): Accept => {
  const inserts = createBatcher<NewJobRow, void>(async (rows) => {
    await insertJobs(db, rows);
    return rows.map(() => undefined);
  });

  const insert = async (row: NewJobRow, { alongside, actor }: JobRequest): Promise<void> => {
    if (alongside === undefined) return row.data.length <= batchedDataLength ? inserts.add(row) : insertJobs(db, [row]);
    await db.transaction(async (tx) => {
      await alongside(tx, row.id);
      await insertJobs(tx, [row]);
    }, actor);
  };

  const enqueue = async (job: JobDefinition, row: NewJobRow, replyTo: string | null): Promise<void> => {
    const data = row.data.length <= inlineDataLength ? row.data : null;
    const message = { id: row.id, projectId: row.projectId, requestId: row.requestId, data, replyTo };
    await producer.enqueue(job, message);
  };

  /** True when the job is gone for good; false when a worker has begun it. */
  const takeBack = (id: string, undo: JobRequest['undo']): Promise<boolean> =>
    db.transaction(async (tx) => {
      const gone = await deleteQueuedJob(tx, id);
      if (gone) await undo?.(tx);
      return gone;
    }, systemActor);

  return async (request, row, replyTo) => {
    await insert(row, request).catch((error: unknown) => {
      // A connection that broke in the commit may have kept the row.
      if (isDependencyFailure(error)) takeBack(row.id, request.undo).catch(() => undefined);
      throw error;
    });
    await enqueue(request.job, row, replyTo).catch(async (error: unknown) => {
      // When a worker has begun it, Redis took it without saying so: it is accepted after all.
      if (await takeBack(row.id, request.undo)) throw error;
    });
  };
};

export const createJobs = (deps: JobsDeps): Jobs => {
  const { db, replies, outcomes } = deps;
  const accept = acceptWith(deps);

  const get: Jobs['get'] = async (projectId, jobId) => {
    const row = await findJob(db, projectId, jobId);
    if (row === undefined) throw notFound('job');
    if (finalStatuses.has(row.status)) return row;
    // It may have ended a moment ago and be on its way into Postgres.
    const outcome = await outcomes.find(jobId).catch(() => null);
    return outcome === null ? row : withOutcome(row, outcome);
  };

  /** A reply can get lost with its stream: when the time is over, the row has the last word. */
  const endedMeanwhile = async (projectId: string, jobId: string): Promise<JobOutcome | null> => {
    const row = await get(projectId, jobId).catch(() => null);
    return row !== null && finalStatuses.has(row.status) ? outcomeOf(row) : null;
  };

  return {
    get,
    run: async (request, waitMs) => {
      const { job, projectId, requestId } = request;
      if (!deps.queueIsUp()) throw queueDown();
      const text = JSON.stringify(job.data.parse(request.data));
      const row = { id: newId(), projectId, type: job.type, data: text, maxAttempts: job.maxAttempts, requestId };
      const waiter = waitMs > 0 ? replies.wait(row.id, waitMs) : null;
      try {
        await accept(request, row, waiter && replies.stream);
      } catch (error) {
        waiter?.stop();
        throw error;
      }
      if (waiter === null) return { id: row.id, outcome: null };
      return { id: row.id, outcome: (await waiter.outcome) ?? (await endedMeanwhile(projectId, row.id)) };
    },
    join: async (projectId, jobId, waitMs) => {
      const deadline = Date.now() + waitMs;
      for (let delayMs = 20; ; delayMs = Math.min(delayMs * 2, 500)) {
        const row = await get(projectId, jobId).catch((error: unknown) => {
          // Whoever accepted it had to take it back.
          throw error instanceof ServiceError && error.code === 'not_found' ? queueDown() : error;
        });
        if (finalStatuses.has(row.status)) return { id: jobId, outcome: outcomeOf(row) };
        if (Date.now() + delayMs > deadline) return { id: jobId, outcome: null };
        await pause(delayMs);
      }
    },
  };
};
