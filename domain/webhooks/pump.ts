import { type NewJobRow, insertJobs } from '#domain/jobs/store.ts';
import type { ControlDb, Tx } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { Gate } from '#queues/gate/types.ts';
import { noteAccepted } from '#queues/metrics.ts';
import {
  type LockedLane,
  isLaneDue,
  lockDueLanes,
  lockLanes,
  scheduleLanes,
  skipWaiting,
  takeTurns,
  wakeLanes,
} from './lanes.ts';
import { byIndex } from './by-index.ts';
import { heldBackBeside } from './slow.ts';

export interface PumpDeps {
  readonly db: ControlDb;
  readonly gate: Pick<Gate, 'admit'>;
  readonly log: Log;
  /** How many webhooks that are not quick may have a try under way, of all projects; left out: the usual number. */
  readonly slowAtOnce?: number;
}

/** What came of looking at lanes. */
export interface Pumped {
  /** Inserted; to be admitted after the commit. */
  readonly jobs: readonly NewJobRow[];
  /** In how many ms the first of the lanes has something to do again; null: none has. */
  readonly nextInMs: number | null;
  readonly lanes: number;
}

/** What is to be looked at again. */
export interface Looked {
  /** In how many ms one of them has something to do again; null: none has. */
  readonly nextInMs: number | null;
  /** Webhooks whose lanes somebody else held: nobody has looked at them. */
  readonly heldIds: readonly string[];
}

const maxLanes = 500;
const maxSkipped = 2000;

/** Within a transaction that holds the lanes: those deliveries whose turn it is become jobs. */
const pumpLocked = async (tx: Tx, lanes: readonly LockedLane[], slowAtOnce?: number): Promise<Pumped> => {
  const active = lanes.filter((lane) => lane.is_active).map((lane) => lane.webhook_id);
  const inactive = lanes.filter((lane) => !lane.is_active).map((lane) => lane.webhook_id);
  const skipped = inactive.length > 0 ? await skipWaiting(tx, inactive, maxSkipped) : 0;
  const more = skipped >= maxSkipped ? 0 : null;
  if (active.length === 0) return { jobs: [], nextInMs: more, lanes: lanes.length };
  const turns = await takeTurns(tx, active, slowAtOnce);
  if (turns.jobs.length > 0) await insertJobs(tx, turns.jobs);
  const next = await scheduleLanes(tx, turns);
  return { jobs: turns.jobs, nextInMs: more ?? next, lanes: lanes.length };
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
const lockBeside = async (tx: Tx, lanes: readonly LockedLane[], slowAtOnce?: number): Promise<LockedLane[]> => {
  if (lanes.length === 0) return [];
  const beside = await heldBackBeside(
    tx,
    lanes.map((lane) => lane.webhook_id),
    slowAtOnce,
  );
  return beside.length === 0 ? [] : (await lockLanes(tx, beside)).lanes;
};

const pumpSome = async (deps: PumpDeps, lock: (tx: Tx) => Promise<LockedLane[]>): Promise<Pumped> => {
  const pumped = await deps.db.transaction(async (tx) => {
    const lanes = await lock(tx);
    return {
      ...(await pumpLocked(tx, [...lanes, ...(await lockBeside(tx, lanes, deps.slowAtOnce))], deps.slowAtOnce)),
      lanes: lanes.length,
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
export const pumpLanes = async (deps: PumpDeps, webhookIds: readonly string[]): Promise<Looked> => {
  let next: number | null = null;
  const held: string[] = [];
  for (let i = 0; i < webhookIds.length; i += maxLanes) {
    const some = webhookIds.slice(i, i + maxLanes);
    const { nextInMs } = await pumpSome(deps, async (tx) => {
      const { lanes, heldIds } = await lockLanes(tx, some);
      held.push(...heldIds);
      return lanes;
    });
    next = soonest(next, nextInMs);
  }
  return { nextInMs: next, heldIds: held };
};

/** As `pumpLanes`; what fails is left to the sweep. */
export const pump = async (deps: PumpDeps, webhookIds: readonly string[]): Promise<void> => {
  try {
    // Before, so that the sweep finds what this does not get done.
    await wakeLanes(deps.db, webhookIds);
    await pumpLanes(deps, webhookIds);
  } catch (error) {
    deps.log.warn({ err: error }, 'deliveries wait for the next look at their webhooks');
  }
};

/**
 * Looks at the lanes whose time has come, whoever left them so.
 * @returns in how many ms one of them has something to do again; null: none has
 */
export const pumpDue = async (deps: PumpDeps): Promise<number | null> => {
  let next: number | null = null;
  let lanes: number;
  // Most of the time there is none: then it is one statement and no transaction.
  if (!(await isLaneDue(deps.db))) return null;
  do {
    const pumped = await pumpSome(deps, (tx) => lockDueLanes(tx, maxLanes));
    next = soonest(next, pumped.nextInMs);
    lanes = pumped.lanes;
  } while (lanes === maxLanes);
  return next;
};
