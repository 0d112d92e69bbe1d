import type { EventSource } from '#domain/events/subscriptions.ts';

export interface DrainOptions {
  /**
   * Drains one project once; `isLarge` says whether its backlog is known to be large. Never throws. @returns whether
   * there is more
   */
  readonly drain: (source: EventSource, isLarge: boolean) => Promise<boolean>;
  /** Schedules another drain of a project that was marked during its last one, behind those that wait already. */
  readonly markDirty: (projectId: string) => void;
  /** The number of concurrent drains. */
  readonly slots: number;
  /** How many of these slots projects with large backlogs may use at most. */
  readonly largeSlots: number;
}

interface Drain {
  isMarked: boolean;
  readonly isLarge: boolean;
  done: Promise<void>;
}

export interface Drains {
  readonly begin: (source: EventSource) => void;
  readonly isFull: () => boolean;
  /** Resolves when the next drain ends. */
  readonly oneDone: () => Promise<unknown>;
  /** Starts no further drains; resolves when the running ones have ended. */
  readonly stop: () => Promise<void>;
}

/**
 * Drains each project once at a time. A project with more events than fit into a drain has a large backlog until a
 * drain empties it. Such projects share their own slots and leave one for the others, whose few events would wait
 * behind theirs.
 */
export const createDrains = ({ drain, markDirty, slots, largeSlots }: DrainOptions): Drains => {
  const running = new Map<string, Drain>();
  const large = new Set<string>();
  /** Projects with large backlogs, in the order of their next drains. */
  const waiting = new Map<string, EventSource>();
  let isStopped = false;

  const hasRoomForLarge = (): boolean =>
    running.size < slots && [...running.values()].filter(({ isLarge }) => isLarge).length < largeSlots;

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
  const run = async (source: EventSource, current: Drain): Promise<void> => {
    const id = source.project_id;
    const hasMore = await drain(source, current.isLarge);
    running.delete(id);
    if (hasMore) {
      large.add(id);
      waiting.set(id, source);
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
