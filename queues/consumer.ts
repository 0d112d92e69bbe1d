import { type Job, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { type JobMessage, type QueueName } from './define.ts';
import { queuePrefix } from './producer.ts';

export interface ConsumerOptions {
  readonly redis: Redis;
  readonly prefix: string;
  readonly queue: QueueName;
  /** Jobs at a time. */
  readonly slots: number;
  /** Must not throw: what BullMQ takes for failed it drops. */
  readonly process: (type: string, message: JobMessage) => Promise<void>;
  readonly onError: (error: Error) => void;
}

export interface Consumer {
  readonly ready: () => Promise<void>;
  /** Takes no new jobs; resolves when the running ones are done. */
  readonly close: () => Promise<void>;
}

/** One queue's BullMQ worker. A dead worker is noticed after at most 15 s: lock 10 s, stalled check each 5 s. */
export const consume = (options: ConsumerOptions): Consumer => {
  const worker = new Worker<JobMessage, void>(
    options.queue,
    (job: Job<JobMessage, void>) => options.process(job.name, job.data),
    {
      connection: options.redis,
      prefix: queuePrefix(options.prefix, options.queue),
      concurrency: options.slots,
      lockDuration: 10_000,
      stalledInterval: 5000,
      // How often a job may be started is decided by its definition, not by BullMQ.
      maxStalledCount: 100,
      skipVersionCheck: true,
    },
  );
  worker.on('error', options.onError);
  return {
    ready: async () => {
      await worker.waitUntilReady();
    },
    close: () => worker.close(),
  };
};
