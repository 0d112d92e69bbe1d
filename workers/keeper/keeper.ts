import { takeDue } from '#domain/jobs/retries.ts';
import type { Pulse } from '#queues/gate/lane-gate.ts';
import type { KeptLane } from './lane.ts';
import { startLoop } from './loop.ts';
import { reap } from './reap.ts';
import { type Reconciler, createReconciler } from './reconcile.ts';
import { restoreLane } from './restore.ts';
import { type Silence, watchSilence } from './silence.ts';

const beatMs = 1000;
// In rounds of the loop.
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

const admitDue = async ({ db, gate, job, holds }: KeptLane): Promise<void> => {
  const due = await takeDue(db, job.type, mostDue);
  if (due.length > 0) await gate.readmit(due.filter((one) => holds(one.projectId)));
};

const readLimits = async ({ gate, rules, job }: KeptLane, projects: readonly string[]): Promise<void> => {
  if (projects.length > 0) await gate.setLimits(await rules.limitsOf(job.type, projects));
};

/** Every process tells the gate of the changes that it makes; this is for what was not told. */
const rereadRules = async (lane: KeptLane): Promise<void> => {
  await lane.gate.setPauses(await lane.rules.pausesOf(lane.job.type));
  await readLimits(lane, await lane.gate.busyProjects());
  await lane.gate.forgetIdle();
};

interface Leader {
  readonly lane: KeptLane;
  readonly silence: Silence;
  readonly reconciler: Reconciler;
  readonly restore: () => Promise<void>;
}

/** The lowest id that is not silent leads; for a moment there may be two, so every step can run beside itself. */
const leads = ({ alive }: Pulse, silence: Silence, workerId: string): boolean => {
  const now = performance.now();
  return [...alive.keys()].filter((id) => !silence.isDead(id, now)).sort()[0] === workerId;
};

const lead = async ({ lane, silence, reconciler, restore }: Leader, pulse: Pulse, round: number): Promise<void> => {
  await admitDue(lane);
  if (round % reapEvery === 0) await reap(lane, silence);
  if (round % rereadRulesEvery === 0) await rereadRules(lane);
  if (round % reconcileEvery !== 0) return;
  // A database that was restored from a backup is at another life of the lane.
  if (await reconciler.agrees(pulse)) await reconciler.round(pulse);
  else await restore();
};

export const startKeeper = (options: KeeperOptions): Keeper => {
  const { gate, log, workerId } = options;
  const lane = gate.lane.name;
  const silence = watchSilence();
  const reconciler = createReconciler(options);
  const opened = Promise.withResolvers<void>();
  let slots: number | null = options.slots;
  let rounds = 0;
  let scan = Promise.resolve();

  const beat = (): Promise<Pulse> =>
    gate.beat({ workerId, slots, info: options.info(), globalLimit: options.globalLimit });

  const restore = async (): Promise<void> => {
    await restoreLane(options);
    await beat();
    scan = scan
      .then(() => reconciler.everything())
      .catch((error: unknown) => log.warn({ err: error, lane }, 'not all that waits was admitted anew'));
  };

  const loop = startLoop(
    async () => {
      const pulse = await beat();
      silence.observe(pulse.alive, performance.now());
      if (!pulse.open) await restore();
      opened.resolve();
      await readLimits(options, pulse.unknown);
      rounds += 1;
      if (pulse.open && leads(pulse, silence, workerId))
        await lead({ lane: options, silence, reconciler, restore }, pulse, rounds);
    },
    beatMs,
    (error) => log.warn({ err: error, lane }, 'the lane cannot be kept just now'),
  );

  return {
    ready: () => opened.promise,
    admitDue: () => admitDue(options),
    leave: async () => {
      slots = 0;
      await beat().catch(() => undefined);
    },
    stop: async () => {
      await loop.stop();
      await scan;
      slots = null;
      await beat().catch(() => undefined);
    },
  };
};
