import type { Redis } from 'ioredis';
import { waitingKey } from '#domain/events/marks.ts';
import { type FannedOut, backlogged, fanOut, isEventWaiting } from '#domain/webhooks/fan-out.ts';
import { noteFannedOut } from '#domain/webhooks/metrics.ts';
import { byIndex } from '#domain/webhooks/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';

/** Tells projects whose many events take up the fan-out from those whose few events are to go at once. */
interface BulkWatch {
  /** Projects that rest now, whose events are left out of the next pass. */
  readonly resting: () => readonly string[];
  /** Notes how many events of each project a pass had, and how long it took. */
  readonly note: (eventsOf: Readonly<Record<string, number>>, tookMs: number) => void;
  /** Milliseconds until the first of those that rest may go on; undefined when none rests. */
  readonly nextMs: () => number | undefined;
}

/** Events that a project may have passed on at a stretch before it rests between two passes. */
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

interface FanOutOptions {
  readonly db: ControlDb;
  readonly log: Log;
  /** Waits for marks; nobody else uses it, and the end of the fan-out ends it. */
  readonly redis: Redis;
  readonly prefix: string;
  /** These webhooks have new deliveries. */
  readonly onDeliveries: (webhookIds: readonly string[]) => void;
  /** So have these, whose throttles are yet to be woken: somebody else held them. */
  readonly onLockedElsewhere: (webhookIds: readonly string[]) => void;
}

/** Events without a mark, since Redis was away for instance, are found by this poll. */
const pollIntervalMs = 1000;
const afterErrorMs = 1000;
/** How many deliveries wait is counted that often. */
const countEveryMs = 10_000;

/** Projects whose events wait, since too many of their deliveries do: as they were some seconds ago. */
const createBacklogWatch = ({ db, log }: FanOutOptions): (() => Promise<readonly string[]>) => {
  let counted = Number.NEGATIVE_INFINITY;
  let overBacklog: readonly string[] = [];
  return async () => {
    if (performance.now() - counted < countEveryMs) return overBacklog;
    overBacklog = await backlogged(db);
    counted = performance.now();
    if (overBacklog.length > 0)
      log.warn({ projects: overBacklog }, 'events are not fanned out: too many deliveries of their projects wait');
    return overBacklog;
  };
};

interface From {
  readonly after: string | null;
  readonly overBacklog: readonly string[];
  readonly bulk: BulkWatch;
}

const fanOutBatch = async (
  { db, onDeliveries, onLockedElsewhere }: FanOutOptions,
  { after, overBacklog, bulk }: From,
): Promise<FannedOut> => {
  const began = performance.now();
  const out = await db.transaction((tx) => fanOut(tx, after, [...overBacklog, ...bulk.resting()]), byIndex);
  bulk.note(out.eventsOf, performance.now() - began);
  if (out.events > 0) noteFannedOut(out.deliveries, out.waitedMs);
  onDeliveries(out.webhookIds);
  onLockedElsewhere(out.lockedElsewhereIds);
  return out;
};

interface FanOutRun {
  readonly overBacklog: () => Promise<readonly string[]>;
  readonly bulk: BulkWatch;
  readonly isStopped: () => boolean;
}

/** Until nothing waits that nobody else has in hand and that does not rest; every project that waits has its turn in between. */
const fanOutAll = async (options: FanOutOptions, { overBacklog, bulk, isStopped }: FanOutRun): Promise<void> => {
  let after: string | null = null;
  while (!isStopped()) {
    // Asked in a tenth of the time that a pass takes which finds nothing.
    if (after === null && !(await isEventWaiting(options.db))) return;
    const { events, next }: FannedOut = await fanOutBatch(options, { after, overBacklog: await overBacklog(), bulk });
    if (events === 0 && after === null) return;
    after = events === 0 ? null : next;
  }
};

/**
 * Makes deliveries of events: at once where somebody told of them, within a second elsewhere. Every worker of webhooks does
 * this; what one has in hand the others leave to it.
 */
export const startFanOut = (options: FanOutOptions): { readonly stop: () => Promise<void> } => {
  const { redis, prefix, log } = options;
  const overBacklog = createBacklogWatch(options);
  const bulk = createBulkWatch();
  let afterRest: NodeJS.Timeout | undefined;
  let isStopped = false;
  let isWanted = false;
  let running: Promise<void> | undefined;

  const work = async (): Promise<void> => {
    while (isWanted && !isStopped) {
      isWanted = false;
      await fanOutAll(options, { overBacklog, bulk, isStopped: () => isStopped }).catch((error: unknown) =>
        log.warn({ err: error }, 'events could not be fanned out; the next poll tries again'),
      );
    }
    running = undefined;
    const restMs = bulk.nextMs();
    clearTimeout(afterRest);
    if (restMs !== undefined && !isStopped) afterRest = setTimeout(poll, restMs).unref();
  };
  const poll = (): void => {
    isWanted = true;
    running ??= work();
  };

  const follow = async (): Promise<void> => {
    while (!isStopped) {
      try {
        if ((await redis.bzpopmin(waitingKey(prefix), 5)) !== null) poll();
      } catch (error) {
        if (isStopped) return;
        log.debug({ err: error }, 'the fan-out could not wait for events');
        await new Promise((resolve) => setTimeout(resolve, afterErrorMs));
      }
      // One look at a time: marks that come meanwhile wait for it, or wake another worker.
      await running;
    }
  };

  poll();
  const timer = setInterval(poll, pollIntervalMs).unref();
  const following = follow();
  return {
    stop: async () => {
      isStopped = true;
      clearInterval(timer);
      clearTimeout(afterRest);
      redis.disconnect();
      await Promise.all([following, running]);
    },
  };
};
