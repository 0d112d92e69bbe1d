import { setTimeout as pause } from 'node:timers/promises';
import type { z } from 'zod';
import { systemActor } from '#domain/audit/actor.ts';
import type { Plan } from '#domain/projects/store.ts';
import { createBatcher } from '#lib/batch.ts';
import { type ControlDb, type Queryable, type Tx, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, isDependencyFailure } from '#lib/errors.ts';
import type { JobDefinition, JobRef } from '#queues/define.ts';
import type { Gate } from '#queues/gate/types.ts';
import { noteAccepted } from '#queues/metrics.ts';
import type { JobFlow } from './flow.ts';
import { type Assumptions, type NewJobRow, type Starter, deleteQueuedJob, insertJobs } from './store.ts';
import { capExceeded } from './usage.ts';

const queueFull = (type: string): ServiceError =>
  new ServiceError('queue_full', `Too many jobs of type ${type} of this project are waiting. Nothing was accepted.`, {
    hint: 'Try again when some have run; GET /projects/{id}/jobs?status=queued lists them.',
    headers: { 'Retry-After': '5' },
  });

// The gate lists those with the longest lines: who has as many waiting as a project may is among them.
const maxProjects = 1000;

/**
 * Before the row is written, by the gate's own count: a refusal then leaves nothing behind, the Idempotency-Key
 * included. Requests at the same moment may go over the limit by their number.
 * @throws {ServiceError} `queue_full`
 */
export const requireRoomAt = async (
  gate: Pick<Gate, 'projects'>,
  { type, projectId }: Pick<JobRef, 'type' | 'projectId'>,
): Promise<void> => {
  const own = (await gate.projects(type, maxProjects)).find((load) => load.projectId === projectId);
  if (own === undefined || own.queued === 0 || own.queued < own.waiting) return;
  throw queueFull(type);
};

/**
 * Counted by the rows, since those that wait for their time are not at the gate.
 * @throws {ServiceError} `queue_full`
 */
export const requireRoom = async (
  db: Queryable,
  { type, projectId }: Pick<JobRef, 'type' | 'projectId'>,
  wanted: number,
  waitingJobs: number,
): Promise<void> => {
  const { max, queued } = await one(
    db.query<{ max: number; queued: number }>(
      `select most.max, (select count(*)::int from (
           select from jobs where project_id = $1 and type = $2 and status = 'queued' limit most.max + 1) q) as queued
       from (select coalesce((select waiting from job_limits where project_id = $1 and type = $2), $3::float8) as max) most`,
      [projectId, type, waitingJobs],
      'room-to-enqueue',
    ),
  );
  if (queued + wanted > max) throw queueFull(type);
};

/** How many bytes the payloads of a project's waiting jobs may have, by plan. */
export type WaitingBytes = Readonly<Record<Plan, number>>;

/**
 * Shorter payloads are accepted unasked: as many as may wait by number (10,000 of a type) are 80 MB, less than the
 * smallest plan gives, and adding up that many rows takes some 10 ms.
 */
const countedFrom = 8 * 1024;

/** Exact whatever dies when: derived from the rows that wait. */
export const waitingBytesOf = async (db: Queryable, projectId: string): Promise<number> => {
  const { bytes } = await one(
    db.query<{ bytes: number }>(
      `select coalesce(sum(octet_length(data)), 0)::float8 as bytes
       from jobs where project_id = $1 and status = 'queued'`,
      [projectId],
      'waiting-bytes',
    ),
  );
  return bytes;
};

const waitingFull = (limit: number): ServiceError =>
  new ServiceError('queue_full', `The waiting jobs of this project may hold ${limit} bytes. Nothing was accepted.`, {
    hint:
      'Try again when some have run, or store large data elsewhere and send its address; ' +
      'GET /projects/{id}/usage tells how much waits.',
    headers: { 'Retry-After': '5' },
  });

/**
 * Asked before the row is written. Requests at the same moment may go over the limit together, by no more than the
 * bodies that a project may have in flight.
 * @param jobs the new ones
 * @throws {ServiceError} `queue_full`
 */
export const requireWaitingBytes = async (
  db: Queryable,
  limits: WaitingBytes,
  projectId: string,
  jobs: readonly Pick<NewJobRow, 'data'>[],
): Promise<void> => {
  const sizes = jobs.map(({ data }) => Buffer.byteLength(data));
  if (sizes.every((size) => size < countedFrom)) return;
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  const project = await maybeOne(
    db.query<{ plan: Plan }>('select plan from projects where id = $1', [projectId], 'plan-of-project'),
  );
  const limit = limits[project?.plan ?? 'free'];
  if ((await waitingBytesOf(db, projectId)) + bytes > limit) throw waitingFull(limit);
};

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
  /** When the jobs of its function may start. Left out: at any time. */
  readonly flow?: JobFlow | undefined;
  /** The job is inserted only while its function and its caller are as the data assumes. */
  readonly assumes?: Assumption | undefined;
}

/** The assumptions of a job's data, and a way to make the data anew when one of them does not hold any more. */
interface Assumption extends Assumptions {
  /**
   * @param db the transaction, where there is one: whoever holds a connection must not wait for another
   * @throws {ServiceError} `not_found` when the function is gone; what a caller gets who may not call any more
   */
  readonly renew: (db: Queryable) => Promise<JobRequest>;
}

export interface AcceptDeps {
  readonly db: ControlDb;
  readonly gate: Pick<Gate, 'admit'>;
  readonly waitingBytes: WaitingBytes;
  /** How many jobs of a project may wait (PLINTH_WAITING_JOBS). */
  readonly waitingJobs: number;
}

/** After 250 ms, 500 ms and so on: Postgres may take 32 s to come back, or to carry out a commit that it still has. */
const takeBackWaits = [0, 1, 2, 3, 4, 5, 6].map((n) => 250 * 2 ** n);

type Accept = (request: JobRequest, row: NewJobRow) => Promise<void>;

/** A function that is deployed this often between two statements is taken as it was found last. */
const maxRenewals = 3;

/** Assumptions that are read as the same text leave only the cap as the reason of a refusal. */
const textOf = ({ functionId, version, access, member }: Assumptions): string =>
  `${functionId} ${version} ${access} ${member?.role} ${member?.plan}`;

interface Inserting {
  readonly db: Queryable;
  /** Answers whether the row was inserted. */
  readonly insert: (row: NewJobRow) => Promise<boolean>;
}

const insertAlone = async (db: Queryable, row: NewJobRow): Promise<boolean> =>
  (await insertJobs(db, [row])).has(row.id);

/**
 * Inserts the row, with its data made anew when its function has changed meanwhile.
 * @throws {ServiceError} `monthly_cap_exceeded`
 */
const insertRenewed = async (by: Inserting, row: NewJobRow, request: JobRequest, renewals = 0): Promise<void> => {
  const assumes = renewals < maxRenewals ? request.assumes : undefined;
  if (await by.insert({ ...row, assumes })) return;
  const renewed = await assumes?.renew(by.db);
  if (assumes === undefined || renewed?.assumes === undefined || textOf(renewed.assumes) === textOf(assumes))
    throw capExceeded(row.monthlyLimit ?? null);
  const data = JSON.stringify(renewed.job.data.parse(renewed.data));
  await insertRenewed(by, { ...row, data, monthlyLimit: renewed.monthlyLimit }, renewed, renewals + 1);
};

/** The row first, then the gate; a job that the gate does not take is taken back. */
export const acceptWith = ({ db, gate, waitingBytes, waitingJobs }: AcceptDeps): Accept => {
  const inserts = createBatcher<NewJobRow, boolean>(async (rows) => {
    const taken = await insertJobs(db, rows);
    return rows.map(({ id }) => taken.has(id));
  });

  const insertBatched: Inserting['insert'] = (row) =>
    row.data.length > batchedDataLength ? insertAlone(db, row) : inserts.add(row);

  const insert = async (row: NewJobRow, request: JobRequest): Promise<void> => {
    const { alongside, actor } = request;
    if (alongside === undefined) return insertRenewed({ db, insert: insertBatched }, row, request);
    await db.transaction(async (tx) => {
      await alongside(tx, row.id);
      await insertRenewed({ db: tx, insert: (each) => insertAlone(tx, each) }, row, request);
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
   * A job that is not found may be one whose commit Postgres has not carried out yet, so it is looked for again. A
   * faster worker runs the job that the caller was told does not exist.
   */
  const takeBackLater = async (row: NewJobRow, undo: JobRequest['undo']): Promise<void> => {
    for (const waitMs of takeBackWaits) {
      if (await takeBack(row, undo).catch(() => false)) return;
      await pause(waitMs, undefined, { ref: false });
    }
  };

  return async (request, row) => {
    const { job, projectId, undo } = request;
    if (job.capped) await requireWaitingBytes(db, waitingBytes, projectId, [row]);
    if (row.options?.flow_of !== undefined) await requireRoom(db, { type: job.type, projectId }, 1, waitingJobs);
    await insert(row, request).catch((error: unknown) => {
      // A connection that broke in the commit may have kept the row.
      if (isDependencyFailure(error)) void takeBackLater(row, undo);
      throw error;
    });
    // Its function holds it; the leader of its shard lets it go.
    if (row.options?.flow_of !== undefined) return noteAccepted(job.type);
    const ref = { id: row.id, type: job.type, projectId, awaited: typeof row.replyTo === 'string' };
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
