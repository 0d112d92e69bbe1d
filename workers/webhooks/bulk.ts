/** Tells projects whose many events take up the fan-out from those whose few events are to go at once. */
export interface BulkWatch {
  /** Projects that rest now, whose events are left out of the next pass. */
  readonly resting: () => readonly string[];
  /** Notes how many events of each project a pass had, and how long it took. */
  readonly note: (eventsOf: Readonly<Record<string, number>>, tookMs: number) => void;
  /** Milliseconds until the first of those that rest may go on; undefined when none rests. */
  readonly nextMs: () => number | undefined;
}

/** What a project may have passed on within a stretch before it rests between two passes. */
const maxAtOnce = 1000;
/** A project whose last event was passed on so long ago begins a new stretch. */
const forgetAfterMs = 1000;
/** A pass that took long since something else held it up is not paid for in full. */
const maxRestMs = 1000;

interface Stretch {
  events: number;
  lastAt: number;
  restsUntil: number;
}

/**
 * A project that had more than 1,000 events passed on at a stretch rests after each pass for as long as the pass took, so
 * that large backlogs take at most half of the time of a fan-out, and the database has the other half for everybody else.
 * @param now in milliseconds, of a clock that never goes back
 */
export const createBulkWatch = (now: () => number = () => performance.now()): BulkWatch => {
  const stretches = new Map<string, Stretch>();

  const forgetOld = (at: number): void => {
    for (const [id, { lastAt, restsUntil }] of stretches) {
      if (at - Math.max(lastAt, restsUntil) > forgetAfterMs) stretches.delete(id);
    }
  };
  return {
    resting: () => {
      const at = now();
      return [...stretches].filter(([, { restsUntil }]) => restsUntil > at).map(([id]) => id);
    },
    note: (eventsOf, tookMs) => {
      const at = now();
      forgetOld(at);
      for (const [id, count] of Object.entries(eventsOf)) {
        const events = (stretches.get(id)?.events ?? 0) + count;
        const restMs = events > maxAtOnce ? Math.min(tookMs, maxRestMs) : 0;
        stretches.set(id, { events, lastAt: at, restsUntil: at + restMs });
      }
    },
    nextMs: () => {
      const at = now();
      const left = [...stretches.values()].map(({ restsUntil }) => restsUntil - at).filter((ms) => ms > 0);
      return left.length > 0 ? Math.min(...left) : undefined;
    },
  };
};
