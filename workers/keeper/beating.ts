import { setTimeout as pause } from 'node:timers/promises';
import { noteSeen } from '#domain/jobs/lanes.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { Beat, LaneGate, Pulse } from '#queues/gate/lane-gate.ts';
import { type Loop, startLoop } from './loop.ts';
import { type Silence, watchSilence } from './silence.ts';

const everyMs = 1000;

/** What one worker says of itself in a lane. */
export interface BeatOptions {
  readonly gate: LaneGate;
  readonly workerId: string;
  readonly slots: number;
  /** JSON that the operators see. */
  readonly info: () => string;
}

/** One worker's signs of life in one lane. What it heard last is at hand. */
export interface Beating {
  readonly name: string;
  readonly silence: Silence;
  /** Null: the last beat failed. */
  readonly latest: () => Pulse | null;
  readonly beat: () => Promise<Pulse>;
  readonly untilOpen: () => Promise<void>;
  /** @param now null: the worker is gone */
  readonly changeSlots: (now: number | null) => Promise<void>;
}

export const createBeating = ({ gate, ...options }: BeatOptions): Beating => {
  const silence = watchSilence();
  let slots: number | null = options.slots;
  let latest: Pulse | null = null;
  let isOpen = false;
  const beat = async (): Promise<Pulse> => {
    const { workerId } = options;
    const said: Beat = { workerId, slots, info: options.info() };
    try {
      latest = await gate.beat(said);
    } catch (error) {
      latest = null;
      throw error;
    }
    silence.observe(latest.alive, performance.now());
    isOpen ||= latest.open;
    return latest;
  };
  return {
    name: gate.lane.name,
    silence,
    latest: () => latest,
    beat,
    /** Looks more often than it beats: whoever leads may open the lane at any moment. */
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

/** Beats in all lanes at once, and by itself: no work of a leader can silence a worker. */
export const startBeating = (
  { db, log, workerId }: { readonly db: ControlDb; readonly log: Log; readonly workerId: string },
  lanes: readonly Beating[],
): Loop => {
  const beatAll = async (): Promise<void> => {
    const beats = await Promise.allSettled(lanes.map((lane) => lane.beat()));
    const reason = beats.find((beat) => beat.status === 'rejected')?.reason as unknown;
    if (reason === undefined) return;
    // Redis may be away for this worker alone: others must not take it for dead.
    await noteSeen(db, workerId).catch(() => undefined);
    const failed = lanes.filter((_, nth) => beats[nth]?.status === 'rejected').map(({ name }) => name);
    throw new Error(`the worker could not say that it lives in ${failed.join(', ')}`, { cause: reason });
  };
  return startLoop(beatAll, everyMs, (error) => log.warn({ err: error }, 'a beat failed'));
};
