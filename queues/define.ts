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
  /**
   * How often the job may be started when a worker dies under it. 1: never again, because what it did once may have had
   * effects. More: every step can be repeated.
   */
  readonly maxAttempts: number;
}

export const defineJob = <Data extends z.ZodType, Result extends z.ZodType>(
  job: JobDefinition<Data, Result>,
): JobDefinition<Data, Result> => job;

export type JobData<Job extends JobDefinition> = z.output<Job['data']>;
export type JobResult<Job extends JobDefinition> = z.output<Job['result']>;

/** How a job ended: what its row keeps and its caller is told. `result` is JSON text, opaque on the way. */
export interface JobOutcome {
  readonly status: 'succeeded' | 'failed' | 'dead';
  readonly result: string | null;
  readonly error: { readonly code: string; readonly message: string } | null;
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
