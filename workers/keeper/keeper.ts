import { setTimeout as pause } from 'node:timers/promises';
import { ensureLane, leadLane, leaveLane, noteSeen } from '#domain/jobs/lanes.ts';
import { takeDue } from '#domain/jobs/retries.ts';
import { settleRules } from '#queues/gate/settle-rules.ts';
import type { Pulse } from '#queues/gate/lane-gate.ts';
import type { KeptLane } from './lane.ts';
import { startLoop } from './loop.ts';
import { reap } from './reap.ts';
import { type Reconciler, createReconciler } from './reconcile.ts';
import { restoreLane } from './restore.ts';
import { type Silence, watchSilence } from './silence.ts';

const roundMs = 1000;
// In rounds.
const reapEvery = 2;
const reconcileEvery = 5;
const rereadRulesEvery = 30;
const mostDue = 500;

export interface KeeperOptions extends KeptLane {
  readonly workerId: string;
  readonly slots: number;
  readonly globalLimit: number | null;
  /** JSON that the operators see. */
  readonly info: () => string;
}

/** One worker's share in keeping a lane in order: it beats, and the lane's leader does what only one needs to do. */
export interface Keeper {
  /** Resolves when the lane is open. */
  readonly ready: () => Promise<void>;
  /** Admits retries that are due. */
  readonly admitDue: () => Promise<void>;
  /** The worker takes no more jobs: its slots count no more. */
  readonly leave: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

const admitDue = async ({ db, gate, job, part }: KeptLane): Promise<void> => {
  const due = await takeDue(db, { type: job.type, part, most: mostDue });
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

interface Leader {
  readonly lane: KeptLane;
  readonly silence: Silence;
  readonly reconciler: Reconciler;
}

const lead = async ({ lane, silence, reconciler }: Leader, pulse: Pulse, round: number): Promise<void> => {
  await admitDue(lane);
  await readLimits(lane, pulse.unknown);
  if (round % reapEvery === 0) await reap(lane, silence);
  if (round % rereadRulesEvery === 0) await rereadRules(lane);
  if (round % reconcileEvery === 0) await reconciler.round(pulse);
};

/** Beats by itself, so that no work of a leader can silence a worker. What it heard last is at hand. */
const startBeating = ({ gate, db, log, workerId, ...options }: KeeperOptions, silence: Silence) => {
  let slots: number | null = options.slots;
  let latest: Pulse | null = null;
  let isOpen = false;
  const beat = async (): Promise<Pulse> => {
    const { globalLimit } = options;
    try {
      latest = await gate.beat({ workerId, slots, info: options.info(), globalLimit });
    } catch (error) {
      latest = null;
      // Redis may be away for this worker alone: others must not take it for dead.
      await noteSeen(db, workerId).catch(() => undefined);
      throw error;
    }
    silence.observe(latest.alive, performance.now());
    isOpen ||= latest.open;
    return latest;
  };
  const loop = startLoop(beat, roundMs, (error) => log.warn({ err: error, lane: gate.lane.name }, 'a beat failed'));
  return {
    /** Looks more often than it beats: whoever leads may open the lane at any moment. */
    untilOpen: async (): Promise<void> => {
      for (let pauseMs = 20; !isOpen; pauseMs = Math.min(pauseMs * 2, roundMs)) {
        await pause(pauseMs);
        if (!isOpen) await beat().catch(() => undefined);
      }
    },
    latest: () => latest,
    beat,
    /** @param now null: the worker is gone */
    changeSlots: async (now: number | null): Promise<void> => {
      slots = now;
      await beat().catch(() => undefined);
    },
    stop: () => loop.stop(),
  };
};

export const startKeeper = (options: KeeperOptions): Keeper => {
  const { db, gate, log, workerId } = options;
  const lane = gate.lane.name;
  const silence = watchSilence();
  const stopping = new AbortController();
  const reconciler = createReconciler(options, stopping.signal);
  const beating = startBeating(options, silence);
  let isKnown = false;
  let rounds = 0;
  let scan = Promise.resolve();

  const restore = async (): Promise<void> => {
    await restoreLane(options);
    await beating.beat();
    scan = scan
      .then(() => reconciler.everything())
      .catch((error: unknown) => log.warn({ err: error, lane }, 'not all that waits was admitted anew'));
  };

  const round = async (): Promise<void> => {
    if (!isKnown) await ensureLane(db, lane);
    isKnown = true;
    const pulse = beating.latest() ?? (await beating.beat());
    const epoch = await leadLane(db, lane, workerId);
    if (epoch === null) return;
    rounds += 1;
    // A database that was restored from a backup is at another life of the lane.
    if (pulse.open && String(epoch) === pulse.epoch) await lead({ lane: options, silence, reconciler }, pulse, rounds);
    else if (beating.latest() === pulse) await restore();
  };
  const loop = startLoop(round, roundMs, (error) => log.warn({ err: error, lane }, 'the lane cannot be kept just now'));

  return {
    ready: beating.untilOpen,
    admitDue: () => admitDue(options),
    leave: () => beating.changeSlots(0),
    stop: async () => {
      stopping.abort();
      await loop.stop();
      await scan;
      await beating.stop();
      await beating.changeSlots(null);
      await leaveLane(db, lane, workerId).catch(() => undefined);
    },
  };
};
