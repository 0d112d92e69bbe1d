import { Queue } from 'bullmq';
import type { Redis } from 'ioredis';
import { type JobDefinition, type JobMessage, type QueueName, queueNames } from './define.ts';

/**
 * Every key of a queue under one hash tag, so that it lies on one node of a Redis Cluster.
 * @param prefix the installation's own (PLINTH_REDIS_PREFIX)
 */
export const queuePrefix = (prefix: string, queue: QueueName): string => `{${prefix}:${queue}}`;

/** The way into BullMQ. What the gate will decide is decided here, in front of `Queue.add`. */
export interface Producer {
  /** Puts an accepted job on its queue. The same id a second time changes nothing. */
  readonly enqueue: (job: JobDefinition, message: JobMessage) => Promise<void>;
  readonly close: () => Promise<void>;
}

// The record in Postgres is what is kept; BullMQ's own copy goes when the job ends. Retries are rows, so one attempt.
const keepNothing = { attempts: 1, removeOnComplete: true, removeOnFail: true };

export const createProducer = (redis: Redis, prefix: string): Producer => {
  const queues = new Map<QueueName, Queue>(
    queueNames.map((name) => {
      const queue = new Queue(name, { connection: redis, prefix: queuePrefix(prefix, name), skipVersionCheck: true });
      // Failures reach the caller through `add`; the connection's own are logged where it is opened.
      queue.on('error', () => undefined);
      return [name, queue];
    }),
  );
  return {
    enqueue: async (job, message) => {
      await queues.get(job.queue)?.add(job.type, message, { ...keepNothing, jobId: message.id });
    },
    close: async () => {
      await Promise.all([...queues.values()].map((queue) => queue.close()));
    },
  };
};
