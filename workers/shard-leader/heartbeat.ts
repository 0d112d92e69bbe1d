import { setTimeout as pause } from 'node:timers/promises';
import { noteSeen } from '#domain/jobs/queue-shards.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { HeartbeatMessage, ShardGate, ShardSnapshot } from '#queues/gate/shard-gate.ts';

/** A worker without heartbeats for so long, while others had some, is dead. Its own watchdog ends it sooner. */
const deadAfterMs = 8000;
const minObservations = 5;
/** A process that has observed nothing for so long declares nobody dead. */
const maxObservationAgeMs = 3000;
const forgetAfterMs = 10 * 60_000;

interface LastHeartbeat {
  /** '' for a worker without any heartbeat yet. */
  readonly heartbeat: string;
  readonly at: number;
  /** The number of observations of others since. */
  readonly observations: number;
}

/**
 * Decides by heartbeats which workers are dead: a time without any heartbeats (Redis was away) counts against nobody.
 */
export interface FailureDetector {
  /** @param heartbeats the last beat of each worker */
  readonly observe: (heartbeats: ReadonlyMap<string, string>, now: number) => void;
  /** Whether a worker is dead; one without any heartbeat yet is watched from now on. */
  readonly isDead: (workerId: string, now: number) => boolean;
  /** Workers with heartbeats that are not known to be dead. */
  readonly alive: (now: number) => readonly string[];
}

export const createFailureDetector = (): FailureDetector => {
  const lastHeartbeats = new Map<string, LastHeartbeat>();
  let observedAt = Number.NEGATIVE_INFINITY;
  const judge = ({ at, observations }: LastHeartbeat, now: number): boolean =>
    now - at >= deadAfterMs && observations >= minObservations && now - observedAt < maxObservationAgeMs;
  return {
    observe: (heartbeats, now) => {
      observedAt = now;
      for (const [id, last] of lastHeartbeats) {
        const isNew = heartbeats.has(id) && heartbeats.get(id) !== last.heartbeat;
        if (now - last.at > forgetAfterMs && !heartbeats.has(id)) lastHeartbeats.delete(id);
        else if (!isNew) lastHeartbeats.set(id, { ...last, observations: last.observations + 1 });
      }
      for (const [id, heartbeat] of heartbeats) {
        if (lastHeartbeats.get(id)?.heartbeat !== heartbeat)
          lastHeartbeats.set(id, { heartbeat, at: now, observations: 0 });
      }
    },
    isDead: (workerId, now) => {
      const last = lastHeartbeats.get(workerId);
      if (last !== undefined) return judge(last, now);
      lastHeartbeats.set(workerId, { heartbeat: '', at: now, observations: 0 });
      return false;
    },
    alive: (now) =>
      [...lastHeartbeats].flatMap(([id, last]) => (last.heartbeat === '' || judge(last, now) ? [] : [id])),
  };
};

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
