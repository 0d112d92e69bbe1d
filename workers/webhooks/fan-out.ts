import { setTimeout as rest } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { waitingKey } from '#domain/events/marks.ts';
import { type AwaitedEvent, resumeWaiting } from '#domain/functions/step-events.ts';
import { type FannedOut, type Which, backlogged, fanOut, isEventWaiting } from '#domain/webhooks/fan-out.ts';
import { bodyOf } from '#domain/webhooks/message.ts';
import { noteFannedOut } from '#domain/webhooks/metrics.ts';
import { byIndex } from '#domain/webhooks/store.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';

/** Tells projects with large backlogs of events from those whose few events are to go at once. */
interface BulkWatch {
  /** Projects that have used up what is passed on at the usual priority. */
  readonly projects: () => readonly string[];
  /** Notes how many events of each project a pass had, and how often these were compared with steps that wait. */
  readonly note: (eventsOf: Readonly<Record<string, number>>, comparedOf?: Readonly<Record<string, number>>) => void;
}

/** Each project may have events passed on at the usual priority: a burst at once, and some each second. */
const burst = 400;
const perSecond = 200;
/** Events beyond that are forgotten: a second after its last event it is as good as any other. */
const maxDebt = perSecond;

/**
 * Comparing an event with so many steps that wait takes as long as passing on an event does, some 0.1 ms. For a project
 * whose runs wait in their thousands each event is a large backlog, and this is not forgotten as soon.
 */
const comparisonsPerEvent = 20;
const maxDebtOfSteps = 30 * perSecond;

interface Allowance {
  /** Events; not positive: used up. */
  readonly left: number;
  readonly at: number;
}

/** A debt that is larger than this kind of spending may make it stays as it is. */
const spent = (left: number, count: number, maxDebt: number): number =>
  Math.max(Math.min(left, -maxDebt), left - count);

/**
 * Each project has an allowance of 400 events that grows by 200 a second. Events that were passed on at the lower
 * priority count, too, so that a flood stays there until it ends.
 * @param now in milliseconds, of a clock that never goes back
 */
export const createBulkWatch = (now: () => number = () => performance.now()): BulkWatch => {
  const allowances = new Map<string, Allowance>();

  const leftOf = (id: string, at: number): number => {
    const known = allowances.get(id);
    return known === undefined ? burst : Math.min(burst, known.left + ((at - known.at) / 1000) * perSecond);
  };
  const forgetFull = (at: number): void => {
    for (const id of allowances.keys()) if (leftOf(id, at) >= burst) allowances.delete(id);
  };
  return {
    projects: () => {
      const at = now();
      return [...allowances.keys()].filter((id) => leftOf(id, at) <= 0);
    },
    note: (eventsOf, comparedOf = {}) => {
      const at = now();
      forgetFull(at);
      for (const [id, count] of Object.entries(eventsOf)) {
        const left = spent(leftOf(id, at), count, maxDebt);
        allowances.set(id, { left: spent(left, (comparedOf[id] ?? 0) / comparisonsPerEvent, maxDebtOfSteps), at });
      }
    },
  };
};

interface FanOutOptions {
  readonly db: ControlDb;
  /** For large backlogs: its server processes have a low priority. */
  readonly backlogDb: ControlDb;
  readonly log: Log;
  /** Waits for marks; nobody else uses it, and the end of the fan-out ends it. */
  readonly redis: Redis;
  readonly prefix: string;
  /** These webhooks have new deliveries. */
  readonly onDeliveries: (webhookIds: readonly string[]) => void;
  /** So have these, whose throttles are yet to be woken: another transaction had locked them. */
  readonly onLockedElsewhere: (webhookIds: readonly string[]) => void;
}

/** Events without a mark, since Redis was away for instance, are found by this poll. */
const pollIntervalMs = 1000;
const markWaitSeconds = 5;
/**
 * The pause after a pass with few events: those that come one by one share the next pass, and their deliveries share
 * statements from then on. At 400 events/s this took the CPU of each from 3.5 to 2.4 ms. An event after a silence goes
 * at once.
 */
const gatherMs = 20;
const fewEvents = 50;
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

interface FanOutRun {
  /** The connection, and with it the priority, of the passes. */
  readonly db: ControlDb;
  readonly which: () => Promise<Which>;
  readonly bulk: BulkWatch;
  /** Aborted when the poller stops. */
  readonly stopping: AbortSignal;
}

/** The result of a step that waited for an event is what a webhook would get of it. */
const eventOf = ({ data, created_at: createdAt, ...row }: FannedOut['awaited'][number]): AwaitedEvent => {
  const event = { ...row, created_at: new Date(createdAt), data: data ?? 'null' };
  return { id: row.id, event: row.event, data, body: bodyOf(event, row.event, null).toString() };
};

/** @returns how often each project's events were compared with a step */
const resumeSteps = async (
  tx: Queryable,
  { awaited }: Pick<FannedOut, 'awaited'>,
): Promise<Readonly<Record<string, number>>> => {
  const comparedOf: Record<string, number> = {};
  for (const [projectId, events] of Map.groupBy(awaited, (row) => row.project_id)) {
    comparedOf[projectId] = (await resumeWaiting(tx, projectId, events.map(eventOf))).compared;
  }
  return comparedOf;
};

const fanOutBatch = async (
  { onDeliveries, onLockedElsewhere }: FanOutOptions,
  { db, bulk }: FanOutRun,
  { after, which }: { readonly after: string | null; readonly which: Which },
): Promise<FannedOut> => {
  const out = await db.transaction(async (tx) => {
    const passed = await fanOut(tx, after, which);
    return { ...passed, comparedOf: await resumeSteps(tx, passed) };
  }, byIndex);
  bulk.note(out.eventsOf, out.comparedOf);
  if (out.events > 0) noteFannedOut(out.deliveries, out.waitedMs);
  onDeliveries(out.webhookIds);
  onLockedElsewhere(out.lockedElsewhereIds);
  return out;
};

/**
 * Until nothing waits that nobody else has in hand; every project that waits has its turn in between.
 * @returns how many events there were
 */
const fanOutAll = async (options: FanOutOptions, passing: FanOutRun): Promise<number> => {
  const { db, stopping } = passing;
  let after: string | null = null;
  let passed = 0;
  while (!stopping.aborted) {
    const which = await passing.which();
    if (which.only?.length === 0) return passed;
    // Asked in a fraction of the time that a pass takes which finds nothing.
    if (after === null && !(await db.transaction((tx) => isEventWaiting(tx, which), byIndex))) return passed;
    const { events, next }: FannedOut = await fanOutBatch(options, passing, { after, which });
    if (events === 0 && after === null) return passed;
    passed += events;
    after = events === 0 ? null : next;
    if (after === null && events < fewEvents) await rest(gatherMs, undefined, { signal: stopping }).catch(() => {});
  }
  return passed;
};

/** Polls for the few events of most projects, and for large backlogs, which go on at a lower priority beside them. */
const startBothPollers = (options: FanOutOptions): { readonly usual: Poller; readonly large: Poller } => {
  const { log, db, backlogDb } = options;
  const overBacklog = createBacklogWatch(options);
  const bulk = createBulkWatch();
  const onFailure = (error: unknown): void =>
    log.warn({ err: error }, 'events could not be fanned out; the next poll tries again');
  const usual = startPoller(
    async (stopping) => {
      const which = async (): Promise<Which> => ({ except: [...(await overBacklog()), ...bulk.projects()] });
      await fanOutAll(options, { db, which, bulk, stopping }).finally(() => large.wake());
    },
    { everyMs: pollIntervalMs, onFailure },
  );
  const large: Poller = startPoller(
    async (stopping) => {
      const which = async (): Promise<Which> => {
        const waiting = new Set(await overBacklog());
        return { only: bulk.projects().filter((id) => !waiting.has(id)) };
      };
      // The allowance of a project may have grown again while its last events waited.
      if ((await fanOutAll(options, { db: backlogDb, which, bulk, stopping })) > 0) usual.wake();
    },
    { everyMs: pollIntervalMs, firstInMs: pollIntervalMs, onFailure },
  );
  return { usual, large };
};

/**
 * Creates deliveries of events: at once after a signal, within a second otherwise. Every worker of webhooks does this;
 * locked events are left to their process.
 */
export const startFanOut = (options: FanOutOptions): { readonly stop: () => Promise<void> } => {
  const { redis, prefix, log } = options;
  const { usual, large } = startBothPollers(options);
  const marks = startPoller(
    async () => {
      if ((await redis.bzpopmin(waitingKey(prefix), markWaitSeconds)) !== null) usual.wake();
      // One poll at a time: marks that come meanwhile wait for it, or wake another worker.
      await usual.idle();
    },
    { everyMs: 0, onFailure: (error) => log.debug({ err: error }, 'the fan-out could not wait for events') },
  );
  return {
    stop: async () => {
      // Ends the wait for a mark.
      redis.disconnect();
      await Promise.all([marks.stop(), usual.stop(), large.stop()]);
    },
  };
};
