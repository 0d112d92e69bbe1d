import { type Job, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { type HandedOver, type Lease, leaseOf } from './gate/lease.ts';
import { type QueueShard, shardPrefix } from './gate/queue-shards.ts';

/** A job as it arrives at a worker. */
export interface Delivery extends HandedOver {
  readonly type: string;
  readonly shard: string;
  readonly lease: Lease;
}

export interface ConsumerOptions {
  readonly redis: Redis;
  readonly prefix: string;
  readonly shard: QueueShard;
  /** Jobs at a time. */
  readonly slots: number;
  /** Must not throw: what BullMQ takes for failed it drops. */
  readonly process: (delivery: Delivery) => Promise<void>;
  readonly onError: (error: Error) => void;
}

export interface Consumer {
  readonly ready: () => Promise<void>;
  /** Takes no new jobs; resolves when the running ones are done. */
  readonly close: () => Promise<void>;
}

type BullJob = Job<HandedOver, void>;

/**
 * BullMQ's loop takes a job, asks for another, and calls the processor when that is answered: with one job waiting, a
 * round trip and two scripts for nothing (0.5 ms). So the work begins when BullMQ says that the job is taken (its event
 * `active`), and the processor waits for the end.
 */
const startEarly = ({ shard, process, onError }: ConsumerOptions) => {
  const started = new Map<string, Promise<void>>();
  const begin = (job: BullJob): Promise<void> =>
    process({ ...job.data, type: shard.type, shard: shard.name, lease: leaseOf(job.id ?? '') });
  return {
    start: (job: BullJob): void => {
      const work = begin(job);
      // Errors are handled here too: the processor may be attached later than a failure.
      work.catch(onError);
      started.set(job.token ?? '', work);
    },
    ended: async (job: BullJob, token = job.token ?? ''): Promise<void> => {
      const work = started.get(token) ?? begin(job);
      started.delete(token);
      await work;
    },
  };
};

/**
 * The BullMQ worker of one shard. Jobs that a dead worker had taken and not started are delivered again after at most
 * 15 s: lock 10 s, stalled check each 5 s. The row decides whether a job starts.
 */
export const consume = (options: ConsumerOptions): Consumer => {
  const { redis, prefix, shard, slots } = options;
  const { start, ended } = startEarly(options);
  const worker = new Worker<HandedOver, void>(shard.name, ended, {
    connection: redis,
    prefix: shardPrefix(prefix, shard.name),
    concurrency: slots,
    lockDuration: 10_000,
    stalledInterval: 5000,
    maxStalledCount: 100,
    skipVersionCheck: true,
  });
  worker.on('active', start);
  worker.on('error', options.onError);
  return {
    ready: async () => {
      await worker.waitUntilReady();
    },
    close: () => worker.close(),
  };
};
