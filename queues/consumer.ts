import { type Job, Worker, createRedisBackend } from 'bullmq';
import type { Redis } from 'ioredis';
import { type HandedOver, type Lease, leaseOf } from './gate/lease.ts';
import { type QueueShard, shardPrefix } from './gate/queue-shards.ts';
import { type ScriptArgument, type Taken, takeOn } from './gate/scripts.ts';
import { type PendingEnd, workerBackend } from './gate/worker-backend.ts';
import type { RunEnd } from './replies.ts';

/** A job as it arrives at a worker. */
export interface Delivery extends HandedOver {
  readonly type: string;
  readonly shard: string;
  readonly lease: Lease;
  /** Whether the job held this lease when it was taken; left out: it was not checked. */
  readonly isHeld?: boolean;
  /**
   * Publishes the end of the run, frees its place at the gate and gives this worker the next job, all in one step. Left
   * out: the steps have to be done one by one. May be called once, before the processing is over.
   * @throws {Error} when Redis did not take it at once; it is sent again for a minute
   */
  readonly complete?: (end: RunEnd) => Promise<void>;
}

/** Sends an end with BullMQ's arguments for finishing a job, and answers the next job. */
export type SendEnd = (lease: Lease, end: RunEnd, finish: readonly ScriptArgument[]) => Promise<Taken>;

export interface ConsumerOptions {
  readonly redis: Redis;
  readonly prefix: string;
  readonly shard: QueueShard;
  /** Jobs at a time. */
  readonly slots: number;
  /** Left out: each delivery ends step by step. */
  readonly sendEnd?: SendEnd | undefined;
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

/** The ends that are on their way, by BullMQ's job. */
const createEnds = (sendEnd: SendEnd) => {
  const pending = new Map<string, PendingEnd>();
  return {
    endOf: (bullId: string): PendingEnd | undefined => pending.get(bullId),
    /** @param release lets BullMQ finish the job, with which the end is sent */
    complete: (bullId: string, end: RunEnd, release: () => void): Promise<void> => {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      pending.set(bullId, {
        send: (finish) => sendEnd(leaseOf(bullId), end, finish),
        onSent: (error) => (error === null ? resolve() : reject(error)),
      });
      release();
      return promise;
    },
    forget: (bullId: string): void => void pending.delete(bullId),
  };
};

/**
 * BullMQ's loop takes a job, asks for another, and calls the processor when that is answered: with one job waiting, a
 * round trip and two scripts for nothing (0.5 ms). So the work begins when BullMQ says that the job is taken (its event
 * `active`), and the processor waits for the end: of all the work, or until its end is ready to be sent.
 */
const startEarly = (
  { shard, process, onError }: ConsumerOptions,
  heldOf: (bullId: string) => boolean | undefined,
  ends: ReturnType<typeof createEnds> | null,
) => {
  const started = new Map<string, Promise<void>>();
  const processing = new Set<Promise<void>>();
  const begin = (job: BullJob): Promise<void> => {
    const bullId = job.id ?? '';
    const released = Promise.withResolvers<void>();
    const isHeld = heldOf(bullId);
    const working = process({
      ...job.data,
      type: shard.type,
      shard: shard.name,
      lease: leaseOf(bullId),
      ...(isHeld !== undefined && { isHeld }),
      ...(ends !== null && { complete: (end: RunEnd) => ends.complete(bullId, end, released.resolve) }),
    })
      .catch(onError)
      .finally(() => {
        processing.delete(working);
        released.resolve();
      });
    processing.add(working);
    return released.promise;
  };
  return {
    start: (job: BullJob): void => void started.set(job.token ?? '', begin(job)),
    ended: async (job: BullJob, token = job.token ?? ''): Promise<void> => {
      const work = started.get(token) ?? begin(job);
      started.delete(token);
      await work;
    },
    idle: async (): Promise<void> => {
      await Promise.all(processing);
    },
  };
};

/** The leases of jobs that were taken and have not begun. */
const createHeld = () => {
  const held = new Map<string, boolean>();
  return {
    note: (bullId: string, isHeld: boolean): void => void held.set(bullId, isHeld),
    take: (bullId: string): boolean | undefined => {
      const isHeld = held.get(bullId);
      held.delete(bullId);
      return isHeld;
    },
  };
};

/**
 * The BullMQ worker of one shard. Jobs that a dead worker had taken and not started are delivered again after at most
 * 15 s: lock 10 s, stalled check each 5 s. The row decides whether a job starts.
 */
export const consume = (options: ConsumerOptions): Consumer => {
  const { redis, prefix, shard, slots, sendEnd } = options;
  const shardKeys = shardPrefix(prefix, shard.name);
  const take = takeOn(redis);
  const held = createHeld();
  // BullMQ's own way, too, when it is not the one whose scripts are known.
  const ends = sendEnd === undefined || take === null ? null : createEnds(sendEnd);
  const { start, ended, idle } = startEarly(options, held.take, ends);
  let isClosing = false;
  const worker = new Worker<HandedOver, void>(
    shard.name,
    ended,
    {
      connection: redis,
      prefix: shardKeys,
      concurrency: slots,
      lockDuration: 10_000,
      stalledInterval: 5000,
      maxStalledCount: 100,
      skipVersionCheck: true,
    },
    take === null
      ? createRedisBackend
      : workerBackend({
          take: (args) => take(args, `${shardKeys}:gate:`),
          endOf: (bullId) => ends?.endOf(bullId),
          onTaken: held.note,
          isClosing: () => isClosing,
        }),
  );
  worker.on('active', start);
  worker.on('completed', (job) => ends?.forget(job.id ?? ''));
  worker.on('failed', (job) => ends?.forget(job?.id ?? ''));
  worker.on('error', options.onError);
  return {
    ready: async () => {
      await worker.waitUntilReady();
    },
    close: async () => {
      isClosing = true;
      await worker.close();
      await idle();
    },
  };
};
