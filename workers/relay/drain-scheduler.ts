import { setTimeout as delay } from 'node:timers/promises';
import type { EventSource } from '#domain/events/sources.ts';

export interface DrainOptions {
  /** One turn for one project. @returns whether there is more. Never throws. */
  readonly drain: (source: EventSource) => Promise<boolean>;
  /** Asks for another turn of a project that was marked during its last one, behind those that wait already. */
  readonly markDirty: (projectId: string) => void;
  /** Turns at the same time. */
  readonly slots: number;
  /** How many of these slots projects with large backlogs may use at most. */
  readonly largeSlots: number;
  /** Resolves after so many milliseconds; left out: by the clock. */
  readonly pause?: (ms: number) => Promise<unknown>;
}

/** A turn that took long since something else held it up is not paid for in full. */
const maxRestMs = 1000;
const pauseByClock = (ms: number): Promise<unknown> => delay(ms, undefined, { ref: false });

interface Drain {
  isMarked: boolean;
  readonly isLarge: boolean;
  done: Promise<void>;
}

export interface Drains {
  readonly begin: (source: EventSource) => void;
  readonly isFull: () => boolean;
  /** Ends with the next turn that ends. */
  readonly oneDone: () => Promise<unknown>;
  /** Begins no further turns; ends when those that run have ended. */
  readonly stop: () => Promise<void>;
}

/**
 * Gives each project one turn at a time. A project that had more than fits into a turn has a large backlog until a turn
 * empties it. Such projects take turns among themselves and leave a slot for the others, whose few events would wait behind
 * theirs. After each of its turns such a project, and the slot with it, rests for as long as the turn took: the databases
 * belong to everybody, and large backlogs take at most half of the time of their slots.
 */
export const createDrains = ({ drain, markDirty, slots, largeSlots, pause = pauseByClock }: DrainOptions): Drains => {
  const running = new Map<string, Drain>();
  const large = new Set<string>();
  /** Projects with large backlogs, in the order of their next turns. */
  const waiting = new Map<string, EventSource>();
  /** Projects of these that rest after a drain. */
  const resting = new Set<string>();
  let isStopped = false;

  const hasRoomForLarge = (): boolean =>
    running.size < slots && resting.size + [...running.values()].filter(({ isLarge }) => isLarge).length < largeSlots;

  const start = (source: EventSource, isLarge: boolean): void => {
    const current: Drain = { isMarked: false, isLarge, done: Promise.resolve() };
    running.set(source.project_id, current);
    current.done = run(source, current);
  };
  const startLarge = (): void => {
    for (const [id, source] of waiting) {
      if (isStopped || !hasRoomForLarge()) return;
      waiting.delete(id);
      start(source, true);
    }
  };
  const restThenWait = async (source: EventSource, ms: number): Promise<void> => {
    resting.add(source.project_id);
    await pause(Math.min(ms, maxRestMs));
    resting.delete(source.project_id);
    waiting.set(source.project_id, source);
    startLarge();
  };
  const run = async (source: EventSource, current: Drain): Promise<void> => {
    const id = source.project_id;
    const began = performance.now();
    const hasMore = await drain(source);
    running.delete(id);
    if (hasMore) {
      large.add(id);
      void restThenWait(source, performance.now() - began);
    } else {
      large.delete(id);
      if (current.isMarked) markDirty(id);
    }
    startLarge();
  };

  return {
    begin: (source) => {
      const id = source.project_id;
      const present = running.get(id);
      if (present) present.isMarked = true;
      else if (resting.has(id)) return;
      else if (large.has(id)) {
        waiting.set(id, source);
        startLarge();
      } else start(source, false);
    },
    isFull: () => running.size >= slots,
    oneDone: () => Promise.race([...running.values()].map(({ done }) => done)),
    stop: async () => {
      isStopped = true;
      await Promise.all([...running.values()].map(({ done }) => done));
    },
  };
};
