import { type Job, Worker } from 'bullmq';
import type { Redis } from 'ioredis';
import { type HandedOver, type Lease, leaseOf } from './gate/lane-gate.ts';
import { type Lane, lanePrefix } from './gate/lanes.ts';

/** A job as it arrives at a worker. */
export interface Delivery extends HandedOver {
  readonly type: string;
  readonly lane: string;
  readonly lease: Lease;
}

export interface ConsumerOptions {
  readonly redis: Redis;
  readonly prefix: string;
  readonly lane: Lane;
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

/**
 * One lane's BullMQ worker. What a dead worker had taken and not begun is delivered again after at most 15 s: lock 10 s,
 * stalled check each 5 s. Whether it begins is decided by its row.
 */
export const consume = (options: ConsumerOptions): Consumer => {
  const { redis, prefix, lane, slots } = options;
  const worker = new Worker<HandedOver, void>(
    lane.name,
    (job: Job<HandedOver, void>) =>
      options.process({ ...job.data, type: lane.type, lane: lane.name, lease: leaseOf(job.id ?? '') }),
    {
      connection: redis,
      prefix: lanePrefix(prefix, lane.name),
      concurrency: slots,
      lockDuration: 10_000,
      stalledInterval: 5000,
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
