import type { z } from 'zod';

/** The pools of workers; a worker process serves some or all of them (`WORKER_QUEUES`). */
export const poolNames = ['functions', 'system', 'webhooks', 'email', 'ai', 'vectors', 'storage'] as const;
export type PoolName = (typeof poolNames)[number];

const isPoolName = (name: string): name is PoolName => (poolNames as readonly string[]).includes(name);

/**
 * The pools of a list of names separated by commas; all of them without a list.
 * @returns null when the list names something else
 */
export const poolsOf = (names: string | undefined): PoolName[] | null => {
  const wanted = [...new Set(names?.split(',') ?? poolNames)];
  return wanted.every(isPoolName) ? wanted : null;
};

export const poolsFault = `WORKER_QUEUES: may name ${poolNames.join(', ')}`;

/** A number for each plan. */
export interface ByPlan {
  readonly free: number;
  readonly pro: number;
  readonly enterprise: number;
}

/**
 * The definition of a job: its type (the contract's name), the pool that runs it, and the schemas of its data and
 * result.
 */
export interface JobDefinition<Data extends z.ZodType = z.ZodType, Result extends z.ZodType = z.ZodType> {
  readonly type: string;
  readonly pool: PoolName;
  readonly data: Data;
  readonly result: Result;
  /** How many jobs of this type one project may have running. */
  readonly running: ByPlan;
  /**
   * The jobs in the plural, as the meaning of its setting PLINTH_GLOBAL_<TYPE> begins, which bounds all projects
   * together.
   */
  readonly plural: string;
  /** How often the job is tried when we or a dependency fail. Code of users runs once, whatever it does. */
  readonly maxAttempts: number;
  /** The second try comes after at least so long, each further one after twice as long. Left out: within a second. */
  readonly retryFromMs?: number;
  /** Whether it is started again when a worker died under it. False: what it did once may have had effects. */
  readonly repeatable: boolean;
  /** After this long a run is stopped. */
  readonly timeoutMs: number;
  /**
   * Whether one of a project's places in five, and at least one of two, is kept for jobs that somebody waits for. Left
   * out: no.
   */
  readonly keepsPlaces?: boolean;
  /** Whether a request for it is refused (429 `queue_full`) while too many of its project wait. */
  readonly capped: boolean;
}

export const defineJob = <Data extends z.ZodType, Result extends z.ZodType>(
  job: JobDefinition<Data, Result>,
): JobDefinition<Data, Result> => job;

export type JobData<Job extends JobDefinition> = z.output<Job['data']>;

/** Why a job failed: `code` is one of the contract's, `message` is for people. */
export interface JobError {
  readonly code: string;
  readonly message: string;
}

export const endStatuses = ['succeeded', 'failed', 'cancelled', 'expired', 'dead'] as const;
export type EndStatus = (typeof endStatuses)[number];

/** The end of a job, as its row keeps it and its caller receives it. `result` is JSON text, opaque on the way. */
export interface JobOutcome {
  readonly status: EndStatus;
  readonly result: string | null;
  readonly error: JobError | null;
  /**
   * The report that the record of the run keeps beside the result (see `domain/functions/run-report.ts`). Callers do
   * not see it.
   */
  readonly report?: string | null | undefined;
  /** No other attempt follows, whatever the job's policy says. Left out: one may. */
  readonly isFinal?: boolean | undefined;
}

/** Which job: what the gate and BullMQ know of it. Everything else stands in its row. */
export interface JobRef {
  readonly id: string;
  readonly type: string;
  readonly projectId: string;
  /** Among the waiting jobs of its project: 9 goes first. Left out: 0. */
  readonly priority?: number | undefined;
  /** Whether somebody waits for its end: it goes before all that nobody waits for. Left out: nobody does. */
  readonly awaited?: boolean | undefined;
}
