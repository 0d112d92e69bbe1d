/** Work that is done again and again, one round at a time. */
export interface Poller {
  /** The next round starts at once, or right after the one under way; after a failure, when its pause is over. */
  readonly wake: () => void;
  /** Resolves when no round is under way. */
  readonly idle: () => Promise<void>;
  /** Starts no further round; resolves when the one under way has ended. */
  readonly stop: () => Promise<void>;
}

/** One round. `stop` aborts `stopping`: a round of several steps checks it between them. */
export type PollRound = (stopping: AbortSignal) => Promise<unknown>;

export interface PollerOptions {
  /**
   * From the end of a round to the start of the next, in ms; read after each round. 0: the round itself waits for work.
   */
  readonly everyMs: number | (() => number);
  /** Until the first round starts, in ms; 0 unless given. */
  readonly firstInMs?: number;
  /** Receives the first of several failures in a row. */
  readonly onFailure: (error: unknown) => void;
}

const firstPauseMs = 100;
const maxPauseMs = 1000;

/** 100 ms after one failure, twice as long after each further one, a second at most. */
const pauseAfter = (failures: number): number =>
  failures === 0 ? 0 : Math.min(firstPauseMs * 2 ** (failures - 1), maxPauseMs);

/**
 * Runs a round, waits, and runs the next. Rounds never overlap, so a slow one delays the next instead of adding to the
 * load. After a failure the next round waits for its back-off, however often the poller is woken meanwhile, and for the
 * usual interval when nobody wakes it. The timers do not keep the process alive.
 */
export const startPoller = (round: PollRound, { everyMs, firstInMs = 0, onFailure }: PollerOptions): Poller => {
  const stopping = new AbortController();
  const { signal } = stopping;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let isWoken = false;
  let failures = 0;
  let earliestAt = 0;

  const untilNext = (): number => {
    const intervalMs = isWoken ? 0 : typeof everyMs === 'number' ? everyMs : everyMs();
    return Math.max(intervalMs, earliestAt - performance.now());
  };

  const runRound = async (): Promise<void> => {
    isWoken = false;
    try {
      await round(signal);
      failures = 0;
    } catch (error) {
      failures += 1;
      if (failures === 1) onFailure(error);
    }
    earliestAt = performance.now() + pauseAfter(failures);
  };

  const run = async (): Promise<void> => {
    timer = undefined;
    do await runRound();
    while (!signal.aborted && untilNext() <= 0);
    running = undefined;
    if (!signal.aborted) schedule(untilNext());
  };
  const start = (): void => {
    running = run();
  };
  const schedule = (ms: number): void => {
    clearTimeout(timer);
    if (ms > 0) timer = setTimeout(start, ms).unref();
    else start();
  };

  schedule(firstInMs);

  return {
    wake: () => {
      isWoken = true;
      if (timer !== undefined && !signal.aborted) schedule(untilNext());
    },
    idle: async () => {
      while (running !== undefined) await running;
    },
    stop: async () => {
      stopping.abort();
      clearTimeout(timer);
      await running;
    },
  };
};
