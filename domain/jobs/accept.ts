import { setTimeout as pause } from 'node:timers/promises';
import type { z } from 'zod';
import { systemActor } from '#domain/audit/actor.ts';
import { createBatcher } from '#lib/batch.ts';
import type { ControlDb, Queryable, Tx } from '#lib/control-db.ts';
import { isDependencyFailure } from '#lib/errors.ts';
import type { JobDefinition } from '#queues/define.ts';
import type { Gate } from '#queues/gate/types.ts';
import { noteAccepted } from '#queues/metrics.ts';
import { queueFull } from './queue-room.ts';
import type { Starter } from './starter.ts';
import { type NewJobRow, deleteQueuedJob, insertJobs } from './store.ts';
import { capExceeded } from './usage.ts';
import { type WaitingBytes, requireWaitingBytes } from './waiting-bytes.ts';

// Longer rows go by themselves: together they would outgrow what one statement can hold.
const batchedDataLength = 65_536;

/** A job that someone asks for. */
export interface JobRequest<Job extends JobDefinition = JobDefinition> {
  readonly job: Job;
  readonly projectId: string;
  readonly requestId: string;
  readonly data: z.input<Job['data']>;
  /** Left out: the platform itself. */
  readonly startedBy?: Starter | undefined;
  /** Rows that must be committed together with the job's row, or not at all. */
  readonly alongside?: (tx: Tx, jobId: string) => Promise<void>;
  /** The actor behind `alongside`, for the audit log. */
  readonly actor?: Readonly<Record<string, string>>;
  /** Takes back what `alongside` did, when the job was not taken. */
  readonly undo?: (tx: Tx) => Promise<void>;
  /** How many of its type its project may have accepted this month; null: no limit. Left out: not counted. */
  readonly monthlyLimit?: number | null | undefined;
}

export interface AcceptDeps {
  readonly db: ControlDb;
  readonly gate: Pick<Gate, 'admit'>;
  readonly waitingBytes: WaitingBytes;
}

const takeBackTimes = 120;
const takeBackEveryMs = 250;

export type Accept = (request: JobRequest, row: NewJobRow) => Promise<void>;

/** @throws {ServiceError} `monthly_cap_exceeded` */
const insertAlone = async (db: Queryable, row: NewJobRow): Promise<void> => {
  if (!(await insertJobs(db, [row])).has(row.id)) throw capExceeded(row.monthlyLimit ?? null);
};

/** The row first, then the gate; a job that the gate does not take is taken back. */
export const acceptWith = ({ db, gate, waitingBytes }: AcceptDeps): Accept => {
  const inserts = createBatcher<NewJobRow, boolean>(async (rows) => {
    const taken = await insertJobs(db, rows);
    return rows.map(({ id }) => taken.has(id));
  });

  const insert = async (row: NewJobRow, { alongside, actor }: JobRequest): Promise<void> => {
    if (alongside === undefined) {
      if (row.data.length > batchedDataLength) return insertAlone(db, row);
      if (!(await inserts.add(row))) throw capExceeded(row.monthlyLimit ?? null);
      return;
    }
    await db.transaction(async (tx) => {
      await alongside(tx, row.id);
      await insertAlone(tx, row);
    }, actor);
  };

  /** True when the job is deleted; false when a worker has started it. */
  const takeBack = ({ id, monthlyLimit }: NewJobRow, undo: JobRequest['undo']): Promise<boolean> =>
    db.transaction(async (tx) => {
      const gone = await deleteQueuedJob(tx, id, monthlyLimit !== undefined);
      if (gone) await undo?.(tx);
      return gone;
    }, systemActor);

  /**
   * The time that Postgres may take to come back; a faster worker runs the job that the caller was told does not exist.
   */
  const takeBackLater = async (row: NewJobRow, undo: JobRequest['undo']): Promise<void> => {
    for (let tries = 0; tries < takeBackTimes; tries += 1) {
      const isDone = await takeBack(row, undo).then(
        () => true,
        () => false,
      );
      if (isDone) return;
      await pause(takeBackEveryMs, undefined, { ref: false });
    }
  };

  return async (request, row) => {
    const { job, projectId, undo } = request;
    if (job.capped) await requireWaitingBytes(db, waitingBytes, row);
    await insert(row, request).catch((error: unknown) => {
      // A connection that broke in the commit may have kept the row.
      if (isDependencyFailure(error)) void takeBackLater(row, undo);
      throw error;
    });
    const ref = { id: row.id, type: job.type, projectId };
    try {
      if ((await gate.admit(ref, job.capped)) === 'full') throw queueFull(job.type);
    } catch (error) {
      const isGone = await takeBack(row, undo).catch(() => {
        void takeBackLater(row, undo);
        throw error;
      });
      // When a worker has started it, Redis took it without an answer: it is accepted after all.
      if (isGone) throw error;
    }
    noteAccepted(job.type);
  };
};
