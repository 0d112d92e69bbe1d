import { setTimeout as rest } from 'node:timers/promises';
import {
  type BatchResult,
  type PumpDeps,
  pumpDue,
  runBatch,
  wakeUnlockedThrottles,
  webhooksWithWork,
} from '#domain/webhooks/scheduler.ts';
import { latelyMs, wakeForgottenThrottles, wakeLatelyForgotten } from '#domain/webhooks/sweep.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { startPoller } from '#lib/poller.ts';

/** Queues due deliveries of webhooks, one poll at a time. */
interface Pumper {
  /** From now on it also polls throttles that other processes left behind. */
  readonly start: () => void;
  /** Polls these webhooks soon; many calls share one poll. */
  readonly add: (webhookIds: readonly string[]) => void;
  /** As `add`, for webhooks with an attempt that has ended: a little later, since more of them are about to end. */
  readonly addRoom: (webhookIds: readonly string[]) => void;
  /** Looks at whoever has something to do in so many ms. */
  readonly wakeIn: (ms: number) => void;
  readonly stop: () => Promise<void>;
}

/** Throttles that other processes left due are found by this poll. */
const pollIntervalMs = 1000;
/** The shortest pause, however soon a delivery is due: polls have a cost. */
const soonestMs = 20;
/** Ended attempts are gathered for so long, since a batch costs less for each the more there are. */
const gatherMs = 20;
/** The pause between polls, so that each serves several attempts that ended; the first after a silence is at once. */
const restMs = 5;
/** Throttles that others hold are retried after this; mostly they are held for milliseconds. */
const lockRetryMs = 25;

/** Does it so many ms after it was first asked for. */
const onceIn = (ms: number, work: () => unknown) => {
  let timer: NodeJS.Timeout | undefined;
  const end = (): void => {
    timer = undefined;
    work();
  };
  return {
    schedule: (): void => void (timer ??= setTimeout(end, ms).unref()),
    stop: (): void => clearTimeout(timer),
  };
};

/** Does it at the earliest time that it was asked for. */
const createAlarm = (work: () => void) => {
  let timer: NodeJS.Timeout | undefined;
  let timerAt = Number.POSITIVE_INFINITY;
  return {
    setIn: (ms: number): void => {
      const at = performance.now() + Math.max(soonestMs, Math.min(ms, pollIntervalMs));
      if (at >= timerAt) return;
      clearTimeout(timer);
      timerAt = at;
      timer = setTimeout(
        () => {
          timerAt = Number.POSITIVE_INFINITY;
          work();
          // Timers drop fractions: an early one finds nothing, and the next poll is far off.
        },
        Math.ceil(at - performance.now()) + 1,
      ).unref();
    },
    stop: (): void => clearTimeout(timer),
  };
};

/** Webhooks that are yet to be polled. */
const createRequested = ({ db }: Pick<PumpDeps, 'db'>) => {
  let requested = new Set<string>();
  let ended = new Set<string>();
  return {
    add: (webhookIds: readonly string[]): void => webhookIds.forEach((id) => requested.add(id)),
    /** Tries of these have ended: mostly nothing else of theirs waits. */
    addEnded: (webhookIds: readonly string[]): void => webhookIds.forEach((id) => ended.add(id)),
    isAny: (): boolean => requested.size > 0 || ended.size > 0,
    take: async (): Promise<string[]> => {
      const [sure, perhaps] = [requested, [...ended.difference(requested)]];
      requested = new Set();
      ended = new Set();
      // A check is cheaper than a poll, but not than a few more webhooks in a poll that is needed anyway.
      if (sure.size > 0 || perhaps.length === 0) return [...sure, ...perhaps];
      return webhooksWithWork(db, perhaps).catch((error: unknown) => {
        for (const id of perhaps) ended.add(id);
        throw error;
      });
    },
  };
};

const nothingRequested: BatchResult = { nextInMs: null, lockedElsewhereIds: [] };

/** Requests whose batch fails are requested again. */
const runRequestedBatch = async (
  deps: PumpDeps,
  requested: ReturnType<typeof createRequested>,
): Promise<BatchResult> => {
  const ids = await requested.take();
  if (ids.length === 0) return nothingRequested;
  return runBatch(deps, ids).catch((error: unknown) => {
    requested.add(ids);
    throw error;
  });
};

export const createPumper = (deps: PumpDeps): Pumper => {
  const requested = createRequested(deps);
  let isStopped = false;
  let isDue = false;
  let running: Promise<void> | undefined;

  const alarm = createAlarm(() => {
    isDue = true;
    begin();
  });
  const wakeIn = (ms: number): void => {
    if (!isStopped) alarm.setIn(ms);
  };

  const pollOnce = async (): Promise<void> => {
    const { nextInMs, lockedElsewhereIds } = await runRequestedBatch(deps, requested);
    if (nextInMs !== null) wakeIn(nextInMs);
    if (lockedElsewhereIds.length > 0) setTimeout(() => add(lockedElsewhereIds), lockRetryMs).unref();
    if (!isDue) return;
    isDue = false;
    wakeIn((await pumpDue(deps)) ?? pollIntervalMs);
  };

  const noteFailure = (error: unknown): false => {
    deps.log.warn({ err: error }, 'due deliveries could not be queued; the next poll tries again');
    isDue = false;
    wakeIn(pollIntervalMs);
    return false;
  };

  const poll = async (): Promise<void> => {
    let isWell = true;
    while (!isStopped && isWell && (requested.isAny() || isDue)) {
      isWell = await pollOnce().then(() => true, noteFailure);
      await rest(restMs);
    }
    running = undefined;
  };

  const begin = (): void => {
    running ??= poll();
  };

  const add = (webhookIds: readonly string[]): void => {
    requested.add(webhookIds);
    if (!isStopped && webhookIds.length > 0) begin();
  };

  // A poll that was under way may have taken them.
  const gather = onceIn(gatherMs, () => requested.isAny() && begin());

  return {
    start: () => wakeIn(0),
    add,
    addRoom: (webhookIds) => {
      requested.addEnded(webhookIds);
      if (!isStopped && webhookIds.length > 0) gather.schedule();
    },
    wakeIn,
    stop: async () => {
      isStopped = true;
      alarm.stop();
      gather.stop();
      await running;
    },
  };
};

interface ThrottleWakerOptions {
  readonly db: Queryable;
  readonly log: Log;
  /** These throttles are woken. */
  readonly onWoken: (webhookIds: readonly string[]) => void;
}

/** Wakes throttles that were locked when deliveries were added. Nothing waits for them meanwhile. */
interface ThrottleWaker {
  readonly add: (webhookIds: readonly string[]) => void;
  /** Throttles that are held even then are found by another worker. */
  readonly stop: () => Promise<void>;
}

/** Throttles are held for milliseconds. */
const wakeRetryMs = 20;
const afterErrorMs = 1000;
/** Several times while what was made lately counts as such. */
const findIntervalMs = latelyMs / 4;

export const startThrottleWaker = ({ db, log, onWoken }: ThrottleWakerOptions): ThrottleWaker => {
  const waiting = new Set<string>();
  let isStopped = false;
  let running: Promise<void> | undefined;

  const wakeSome = async (): Promise<void> => {
    const ids = [...waiting];
    const lockedElsewhere = new Set(await wakeUnlockedThrottles(db, ids));
    const woken = ids.filter((id) => !lockedElsewhere.has(id));
    for (const id of woken) waiting.delete(id);
    onWoken(woken);
    if (waiting.size > 0) await rest(wakeRetryMs);
  };

  const work = async (): Promise<void> => {
    while (waiting.size > 0 && !isStopped) {
      await wakeSome().catch(async (error: unknown) => {
        log.warn({ err: error }, 'throttles of webhooks with due deliveries could not be woken; trying again');
        await rest(afterErrorMs);
      });
    }
    running = undefined;
  };

  // First all throttles that dead workers left behind; later only recent ones.
  let find = wakeForgottenThrottles;
  const finder = startPoller(
    async () => {
      await find(db);
      find = wakeLatelyForgotten;
    },
    {
      everyMs: findIntervalMs,
      onFailure: (error) =>
        log.warn({ err: error }, 'forgotten throttles could not be searched for; trying again later'),
    },
  );

  return {
    add: (webhookIds) => {
      for (const id of webhookIds) waiting.add(id);
      if (!isStopped && waiting.size > 0) running ??= work();
    },
    stop: async () => {
      isStopped = true;
      await Promise.all([running, finder.stop()]);
      // The free ones are due now; another worker finds the others, and all of them when this fails.
      if (waiting.size > 0) await wakeUnlockedThrottles(db, [...waiting]).catch(() => undefined);
    },
  };
};
