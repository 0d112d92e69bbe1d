import { setTimeout as pause } from 'node:timers/promises';
import { noteSeen } from '#domain/jobs/queue-shards.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { HeartbeatMessage, ShardGate, ShardSnapshot } from '#queues/gate/shard-gate.ts';
import { type FailureDetector, createFailureDetector } from './failure-detector.ts';

const everyMs = 1000;

/** The data that one worker reports to a shard. */
export interface HeartbeatOptions {
  readonly gate: ShardGate;
  readonly workerId: string;
  readonly slots: number;
  /** JSON that the operators see. */
  readonly info: () => string;
}

/** One worker's heartbeats in one shard, with the latest answer. */
export interface Heartbeat {
  readonly name: string;
  readonly detector: FailureDetector;
  /** Null: the last beat failed. */
  readonly latest: () => ShardSnapshot | null;
  readonly beat: () => Promise<ShardSnapshot>;
  readonly untilOpen: () => Promise<void>;
  /** @param now null: the worker is gone */
  readonly changeSlots: (now: number | null) => Promise<void>;
}

export const createHeartbeat = ({ gate, ...options }: HeartbeatOptions): Heartbeat => {
  const detector = createFailureDetector();
  let slots: number | null = options.slots;
  let latest: ShardSnapshot | null = null;
  let isOpen = false;
  const beat = async (): Promise<ShardSnapshot> => {
    const { workerId } = options;
    const message: HeartbeatMessage = { workerId, slots, info: options.info() };
    try {
      latest = await gate.beat(message);
    } catch (error) {
      latest = null;
      throw error;
    }
    detector.observe(latest.alive, performance.now());
    isOpen ||= latest.open;
    return latest;
  };
  return {
    name: gate.shard.name,
    detector,
    latest: () => latest,
    beat,
    /** Polls more often than the heartbeat: the leader may open the shard at any moment. */
    untilOpen: async () => {
      for (let pauseMs = 20; !isOpen; pauseMs = Math.min(pauseMs * 2, everyMs)) {
        await pause(pauseMs);
        if (!isOpen) await beat().catch(() => undefined);
      }
    },
    changeSlots: async (now) => {
      slots = now;
      await beat().catch(() => undefined);
    },
  };
};

/** Beats in all shards at once, and by itself: no work of a leader can silence a worker. */
export const startHeartbeats = (
  { db, log, workerId }: { readonly db: ControlDb; readonly log: Log; readonly workerId: string },
  shards: readonly Heartbeat[],
): Poller => {
  const beatAll = async (): Promise<void> => {
    const beats = await Promise.allSettled(shards.map((shard) => shard.beat()));
    const reason = beats.find((beat) => beat.status === 'rejected')?.reason as unknown;
    if (reason === undefined) return;
    // Redis may be away for this worker alone: others must not take it for dead.
    await noteSeen(db, workerId).catch(() => undefined);
    const failed = shards.filter((_, nth) => beats[nth]?.status === 'rejected').map(({ name }) => name);
    throw new Error(`no heartbeat could be sent to ${failed.join(', ')}`, { cause: reason });
  };
  return startPoller(beatAll, { everyMs, onFailure: (error) => log.warn({ err: error }, 'a heartbeat failed') });
};
