import { type NewJobRow, insertJobs } from '#domain/jobs/store.ts';
import type { ControlDb, Tx } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { Gate } from '#queues/gate/types.ts';
import { noteAccepted } from '#queues/metrics.ts';
import {
  type LockedThrottle,
  claimDeliveries,
  isThrottleDue,
  lockDueThrottles,
  lockThrottles,
  scheduleThrottles,
  skipWaiting,
  wakeThrottles,
} from './throttle.ts';
import { byIndex } from './by-index.ts';
import { heldBackBeside } from './slow.ts';

export interface PumpDeps {
  readonly db: ControlDb;
  readonly gate: Pick<Gate, 'admit'>;
  readonly log: Log;
  /** How many webhooks that are not quick may have a try under way, of all projects; left out: the usual number. */
  readonly slowAtOnce?: number;
}

/** What came of looking at throttles. */
export interface Pumped {
  /** Inserted; to be admitted after the commit. */
  readonly jobs: readonly NewJobRow[];
  /** In how many ms the first of the throttles has something to do again; null: none has. */
  readonly nextInMs: number | null;
  readonly throttles: number;
}

/** What is to be looked at again. */
export interface BatchResult {
  /** In how many ms one of them has something to do again; null: none has. */
  readonly nextInMs: number | null;
  /** Webhooks whose throttles somebody else held: nobody has looked at them. */
  readonly lockedElsewhereIds: readonly string[];
}

const maxThrottles = 500;
const maxSkipped = 2000;

/** Within a transaction that holds the throttles: those deliveries whose turn it is become jobs. */
const runLockedBatch = async (tx: Tx, throttles: readonly LockedThrottle[], slowAtOnce?: number): Promise<Pumped> => {
  const active = throttles.filter((throttle) => throttle.is_active).map((throttle) => throttle.webhook_id);
  const inactive = throttles.filter((throttle) => !throttle.is_active).map((throttle) => throttle.webhook_id);
  const skipped = inactive.length > 0 ? await skipWaiting(tx, inactive, maxSkipped) : 0;
  const more = skipped >= maxSkipped ? 0 : null;
  if (active.length === 0) return { jobs: [], nextInMs: more, throttles: throttles.length };
  const claimed = await claimDeliveries(tx, active, slowAtOnce);
  if (claimed.jobs.length > 0) await insertJobs(tx, claimed.jobs);
  const next = await scheduleThrottles(tx, claimed);
  return { jobs: claimed.jobs, nextInMs: more ?? next, throttles: throttles.length };
};

/** Never fails: what the gate does not take now, the reconciler brings to it within seconds. */
const admitAll = async ({ gate, log }: Omit<PumpDeps, 'db'>, jobs: readonly NewJobRow[]): Promise<void> => {
  const admit = async ({ id, type, projectId }: NewJobRow): Promise<void> => {
    noteAccepted(type);
    await gate.admit({ id, type, projectId }, false);
  };
  const results = await Promise.allSettled(jobs.map(admit));
  const failure = results.find((result) => result.status === 'rejected');
  if (failure) log.warn({ err: failure.reason as unknown }, 'deliveries wait for the reconciler');
};

const soonest = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.min(a, b);

/** Whoever has ended a try may have made room for others. */
const lockBeside = async (
  tx: Tx,
  throttles: readonly LockedThrottle[],
  slowAtOnce?: number,
): Promise<LockedThrottle[]> => {
  if (throttles.length === 0) return [];
  const beside = await heldBackBeside(
    tx,
    throttles.map((throttle) => throttle.webhook_id),
    slowAtOnce,
  );
  return beside.length === 0 ? [] : (await lockThrottles(tx, beside)).throttles;
};

const pumpSome = async (deps: PumpDeps, lock: (tx: Tx) => Promise<LockedThrottle[]>): Promise<Pumped> => {
  const pumped = await deps.db.transaction(async (tx) => {
    const throttles = await lock(tx);
    return {
      ...(await runLockedBatch(
        tx,
        [...throttles, ...(await lockBeside(tx, throttles, deps.slowAtOnce))],
        deps.slowAtOnce,
      )),
      throttles: throttles.length,
    };
  }, byIndex);
  await admitAll(deps, pumped.jobs);
  return pumped;
};

/**
 * Begins what can be begun of these webhooks' deliveries. To be called after the commit of whatever gave them something to
 * do: new deliveries, a webhook that became active or inactive. Should it fail, the sweep of the workers does it within a
 * second.
 */
export const runBatch = async (deps: PumpDeps, webhookIds: readonly string[]): Promise<BatchResult> => {
  let next: number | null = null;
  const lockedElsewhere: string[] = [];
  for (let i = 0; i < webhookIds.length; i += maxThrottles) {
    const some = webhookIds.slice(i, i + maxThrottles);
    const { nextInMs } = await pumpSome(deps, async (tx) => {
      const { throttles, lockedElsewhereIds } = await lockThrottles(tx, some);
      lockedElsewhere.push(...lockedElsewhereIds);
      return throttles;
    });
    next = soonest(next, nextInMs);
  }
  return { nextInMs: next, lockedElsewhereIds: lockedElsewhere };
};

/** As `runBatch`; what fails is left to the sweep. */
export const pump = async (deps: PumpDeps, webhookIds: readonly string[]): Promise<void> => {
  try {
    // Before, so that the sweep finds what this does not get done.
    await wakeThrottles(deps.db, webhookIds);
    await runBatch(deps, webhookIds);
  } catch (error) {
    deps.log.warn({ err: error }, 'due deliveries wait for the next poll of their webhooks');
  }
};

/**
 * Looks at the throttles whose time has come, whoever left them so.
 * @returns in how many ms one of them has something to do again; null: none has
 */
export const pumpDue = async (deps: PumpDeps): Promise<number | null> => {
  let next: number | null = null;
  let throttles: number;
  // Most of the time there is none: then it is one statement and no transaction.
  if (!(await isThrottleDue(deps.db))) return null;
  do {
    const pumped = await pumpSome(deps, (tx) => lockDueThrottles(tx, maxThrottles));
    next = soonest(next, pumped.nextInMs);
    throttles = pumped.throttles;
  } while (throttles === maxThrottles);
  return next;
};
