import type { z } from 'zod';

/** The BullMQ queues; a worker process serves some or all of them. */
export const queueNames = ['functions', 'system'] as const;
export type QueueName = (typeof queueNames)[number];

/** What a job is: its type (the contract's name), its queue, and the shapes of what goes in and what comes out. */
export interface JobDefinition<Data extends z.ZodType = z.ZodType, Result extends z.ZodType = z.ZodType> {
  readonly type: string;
  readonly queue: QueueName;
  readonly data: Data;
  readonly result: Result;
  /** How often the job is tried when we or a dependency fail. Code of users runs once, whatever it does. */
  readonly maxAttempts: number;
  /** Whether it is started again when a worker died under it. False: what it did once may have had effects. */
  readonly repeatable: boolean;
}

export const defineJob = <Data extends z.ZodType, Result extends z.ZodType>(
  job: JobDefinition<Data, Result>,
): JobDefinition<Data, Result> => job;

export type JobData<Job extends JobDefinition> = z.output<Job['data']>;
export type JobResult<Job extends JobDefinition> = z.output<Job['result']>;

/** Why a job failed: `code` is one of the contract's, `message` is for people. */
export interface JobError {
  readonly code: string;
  readonly message: string;
}

/** How a job ended: what its row keeps and its caller is told. `result` is JSON text, opaque on the way. */
export interface JobOutcome {
  readonly status: 'succeeded' | 'failed' | 'dead';
  readonly result: string | null;
  readonly error: JobError | null;
}

/** One accepted job on its way to a worker. */
export interface JobMessage {
  readonly id: string;
  readonly projectId: string;
  readonly requestId: string;
  /** JSON text that fits the definition's `data`. Null when it is large: the worker then reads the row. */
  readonly data: string | null;
  /** The reply stream of the API process that waits; null when nobody does. */
  readonly replyTo: string | null;
}
