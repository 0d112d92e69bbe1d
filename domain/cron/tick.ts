import type { NewJobRow } from '#domain/jobs/store.ts';
import type { MonthlyCaps } from '#domain/jobs/usage.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { Gate } from '#queues/gate/types.ts';
import { noteAccepted } from '#queues/metrics.ts';
import { findDue } from './due-store.ts';
import type { Pass } from './fire-batch.ts';
import { fireDue, releaseWaiting } from './passes.ts';

export interface CronTickDeps {
  readonly db: ControlDb;
  readonly gate: Pick<Gate, 'admit'>;
  readonly log: Log;
  /** How many runs of functions each plan has a month; left out: any number. */
  readonly caps?: MonthlyCaps;
  /** Called after each successful tick: for measurements. */
  readonly onTick?: (took: { readonly ms: number; readonly started: number }) => void;
}

export interface Ticked {
  /** The database's clock at the tick, in ms. */
  readonly now: number;
  /** This process's `performance.now()` when it had the answer. */
  readonly checkedAt: number;
  /** Jobs that it started. */
  readonly started: number;
}

const everyMs = 1000;
// Past the second, so that what is due at it is due for certain.
const pastTheSecondMs = 3;

/** Fires are never refused: what the gate does not take now, the reconciler brings to it within seconds. */
const admitAll = async ({ gate, log }: CronTickDeps, jobs: readonly NewJobRow[]): Promise<void> => {
  const admit = async ({ id, type, projectId }: NewJobRow): Promise<void> => {
    noteAccepted(type);
    await gate.admit({ id, type, projectId }, false);
  };
  const results = await Promise.allSettled(jobs.map(admit));
  const failure = results.find((result) => result.status === 'rejected');
  if (failure) log.warn({ err: failure.reason as unknown }, 'fires of schedules wait for the reconciler');
};

const repeat = async (deps: CronTickDeps, pass: () => Promise<Pass>): Promise<number> => {
  let started = 0;
  let more: boolean;
  do {
    const done = await pass();
    await admitAll(deps, done.jobs);
    started += done.jobs.length;
    more = done.more;
  } while (more);
  return started;
};

/** Fires all that is due, and starts runs that waited for the one before them. Any number of ticks may run at once. */
export const tick = async (deps: CronTickDeps): Promise<Ticked> => {
  const { db } = deps;
  const { now, due, waiting } = await findDue(db);
  const checkedAt = performance.now();
  // First those that wait: a fire of the same schedule that is due now comes after them.
  const released = waiting ? await repeat(deps, () => releaseWaiting(db, deps)) : 0;
  const fired = due ? await repeat(deps, () => fireDue(db, deps)) : 0;
  return { now, checkedAt, started: released + fired };
};

/**
 * Ticks each second, shortly after the database's clock passes it. Every system worker does this; schedules that one
 * holds the others leave to it, and one that dies leaves them as they were.
 */
export const startCronTick = (deps: CronTickDeps): Pick<Poller, 'stop'> => {
  let untilNextMs = everyMs;
  const round = async (): Promise<void> => {
    const began = performance.now();
    untilNextMs = everyMs;
    const { now, checkedAt, started } = await tick(deps);
    deps.onTick?.({ ms: performance.now() - began, started });
    untilNextMs = everyMs - ((now + performance.now() - checkedAt) % everyMs) + pastTheSecondMs;
  };
  return startPoller(round, {
    everyMs: () => untilNextMs,
    onFailure: (error) => deps.log.warn({ err: error }, 'the cron tick failed; the next one does its work'),
  });
};
