import type { Candidate, Lead } from '#domain/jobs/lanes.ts';
import { takeDue } from '#domain/jobs/retries.ts';
import type { Pulse } from '#queues/gate/lane-gate.ts';
import { settleRules } from '#queues/gate/settle-rules.ts';
import type { Beating } from './beating.ts';
import type { KeptLane } from './lane.ts';
import { reap } from './reap.ts';
import { type LeaseWatch, watchLeases } from './lost-leases.ts';
import { type Reconciler, createReconciler } from './reconcile.ts';
import { restoreLane } from './restore.ts';

// In rounds.
const reapEvery = 2;
const reconcileEvery = 5;
const rereadRulesEvery = 30;
const maxDue = 500;

/** Does for one lane what only one worker needs to do, a round at a time. */
export interface Leader {
  readonly type: string;
  readonly beating: Beating;
  /** Whether its last round goes on; another one is not begun meanwhile, and its lead runs out. */
  readonly isBusy: () => boolean;
  readonly candidate: () => Candidate;
  /** @param pulse what was heard before the lead was given */
  readonly begin: (held: Lead, pulse: Pulse) => void;
  /** Admits retries that are due. */
  readonly admitDue: () => Promise<void>;
  /** Resolves when nothing is under way. */
  readonly settled: () => Promise<void>;
}

const admitDue = async ({ db, gate, job, part }: KeptLane): Promise<void> => {
  const due = await takeDue(db, { type: job.type, part, max: maxDue });
  if (due.length > 0) await gate.readmit(due);
};

const readLimits = async ({ gate, rules, job }: KeptLane, projects: readonly string[]): Promise<void> => {
  if (projects.length > 0) await gate.setLimits(await rules.limitsOf(job.type, projects));
};

/** Every process tells the gate of the changes that it makes; this is for what was not told. */
const rereadRules = async ({ gate, rules, job }: KeptLane): Promise<void> => {
  await settleRules(gate, rules, { type: job.type, projects: await gate.busyProjects() });
  await gate.forgetIdle();
};

interface Means {
  readonly lane: KeptLane;
  readonly beating: Beating;
  readonly reconciler: Reconciler;
  readonly leases: LeaseWatch;
}

/** What is known at the beginning of a round. */
interface Round {
  readonly pulse: Pulse;
  readonly held: Lead;
  readonly number: number;
}

/** Answers whether the lane has to be restored. */
const lead = async ({ lane, beating, reconciler, leases }: Means, given: Round): Promise<boolean> => {
  const { pulse, held, number: round } = given;

  if (held.due) await admitDue(lane);
  await readLimits(lane, pulse.unknown);
  if (held.running && round % reapEvery === 0) {
    if (await leases.isBroken()) return true;
    await reap(lane, beating.silence);
  }
  if (round % rereadRulesEvery === 0) await rereadRules(lane);
  if (round % reconcileEvery === 0) await reconciler.round(pulse, held.waiting);
  return false;
};

export const createLeader = (lane: KeptLane, beating: Beating, stopped: AbortSignal): Leader => {
  const { log } = lane;
  const { name, type } = lane.gate.lane;
  const means: Means = { lane, beating, reconciler: createReconciler(lane, stopped), leases: watchLeases(lane) };
  let rounds = 0;
  let scan = Promise.resolve();
  let running: Promise<void> | undefined;
  let isFailing = false;

  const restore = async (): Promise<void> => {
    await restoreLane(lane);
    await beating.beat();
    scan = scan
      .then(() => means.reconciler.everything())
      .catch((error: unknown) => log.warn({ err: error, lane: name }, 'not all that waits was admitted anew'));
  };

  const round = async (held: Lead, pulse: Pulse): Promise<void> => {
    rounds += 1;
    const isOpen = pulse.open && String(held.epoch) === pulse.epoch;
    // A database that was restored from a backup is at another life of the lane.
    if (!isOpen) {
      if (beating.latest() === pulse) await restore();
      return;
    }
    if (!(await lead(means, { pulse, held, number: rounds }))) return;
    log.error({ lane: name }, 'jobs run without their leases: Redis lost some of what it was given');
    await restore();
  };

  const attempt = async (held: Lead, pulse: Pulse): Promise<void> => {
    try {
      await round(held, pulse);
      isFailing = false;
    } catch (error) {
      if (!isFailing) log.warn({ err: error, lane: name }, 'the lane cannot be kept just now');
      isFailing = true;
    }
    running = undefined;
  };

  return {
    type,
    beating,
    isBusy: () => running !== undefined,
    candidate: () => ({ name, type, compares: (rounds + 1) % reconcileEvery === 0 }),
    begin: (held, pulse) => {
      running = attempt(held, pulse);
    },
    admitDue: () => admitDue(lane),
    settled: async () => {
      await running;
      await scan;
    },
  };
};
