import { setTimeout as pause } from 'node:timers/promises';
import type { Candidate, Leadership } from '#domain/jobs/queue-shards.ts';
import { type KeysAfter, admitKeyed, waitingKeys } from '#domain/jobs/concurrency.ts';
import type { ShardSnapshot } from '#queues/gate/shard-gate.ts';
import { settleRules } from '#queues/gate/settle-rules.ts';
import type { Heartbeat } from './heartbeat.ts';
import type { ShardContext } from './context.ts';
import { type AdmitDue, createAdmitDue } from './due.ts';
import { reap } from './reap.ts';
import { type FlowRelease, createFlowRelease } from './release.ts';
import { type LeaseWatch, type Reconciler, createReconciler, restoreShard, watchLeases } from './reconcile.ts';

// In rounds.
const reapEvery = 2;
const reconcileEvery = 5;
const rereadRulesEvery = 30;
/** Between two rounds, when something is due before the next: a run that slept begins at its time. */
const dueEveryMs = 200;
const duesInRound = 4;

/** Does for one shard what only one worker needs to do, a round at a time. */
export interface Leader {
  readonly type: string;
  readonly heartbeat: Heartbeat;
  /** Whether its last round is still running; no other one is started meanwhile, and its leadership expires. */
  readonly isBusy: () => boolean;
  readonly candidate: () => Candidate;
  /**
   * @param snapshot the heartbeat's answer from before the leadership was granted
   * @param snapshot what was heard before the lead was given
   */
  readonly begin: (leadership: Leadership, snapshot: ShardSnapshot) => void;
  /** Admits retries that are due. */
  readonly admitDue: () => Promise<void>;
  /** Resolves when nothing is under way. */
  readonly settled: () => Promise<void>;
}

/**
 * Gives places of concurrency keys that became free unnoticed, and those of jobs whose time has come. Where there are
 * many keys, it goes on next time where it stopped.
 */
const admitWaitingKeys = async (
  { db, gate, job, part }: ShardContext,
  after: KeysAfter | null,
): Promise<KeysAfter | null> => {
  const { found, last } = await waitingKeys(db, { type: job.type, part, after });
  for (const keys of found) {
    const admitted = await admitKeyed(db, keys);
    if (admitted.length > 0) await gate.readmit(admitted);
  }
  return last;
};

const readLimits = async ({ gate, rules, job }: ShardContext, projects: readonly string[]): Promise<void> => {
  if (projects.length > 0) await gate.setLimits(await rules.limitsOf(job.type, projects));
};

/** Every process notifies the gate of its changes; this catches changes without a notification. */
const rereadRules = async ({ gate, rules, job }: ShardContext): Promise<void> => {
  await settleRules(gate, rules, { type: job.type, projects: await gate.busyProjects() });
  await gate.forgetIdle();
};

/** Admits jobs that become due between two rounds. */
interface Dues {
  readonly begin: () => void;
  readonly settled: () => Promise<void>;
}

const createDues = (admitDue: AdmitDue, stopped: AbortSignal): Dues => {
  let admitting: Promise<void> | undefined;
  const repeat = async (): Promise<void> => {
    for (let done = 0; done < duesInRound; done += 1) {
      await pause(dueEveryMs, undefined, { ref: false, signal: stopped });
      await admitDue();
    }
  };
  return {
    begin: () => {
      // The next round does it when this fails or is aborted.
      admitting ??= repeat()
        .catch(() => undefined)
        .finally(() => {
          admitting = undefined;
        });
    },
    settled: async () => admitting,
  };
};

interface LeaderParts {
  readonly shard: ShardContext;
  readonly heartbeat: Heartbeat;
  readonly reconciler: Reconciler;
  readonly leases: LeaseWatch;
  readonly keys: { after: KeysAfter | null };
  readonly admitDue: AdmitDue;
  readonly flow: FlowRelease;
  readonly dues: Dues;
}

/** The state at the beginning of a round. */
interface Round {
  readonly snapshot: ShardSnapshot;
  readonly leadership: Leadership;
  readonly number: number;
}

/** Answers whether the shard has to be restored. */
const runDuties = async (
  { shard, heartbeat, reconciler, leases, keys, admitDue, flow, dues }: LeaderParts,
  given: Round,
): Promise<boolean> => {
  const { snapshot, leadership, number: round } = given;

  const holds = leadership.due && (await admitDue());
  if (holds || leadership.flowing) flow.begin();
  if (leadership.due) dues.begin();
  await readLimits(shard, snapshot.unknown);
  if (leadership.running && round % reapEvery === 0) {
    if (await leases.isBroken()) return true;
    await reap(shard, heartbeat.detector);
  }
  if (round % rereadRulesEvery === 0) {
    await rereadRules(shard);
    await flow.renew();
  }
  if (round % reconcileEvery !== 0) return false;
  if (leadership.keyed) keys.after = await admitWaitingKeys(shard, keys.after);
  await reconciler.round(snapshot, leadership.waiting);
  return false;
};

const partsOf = (shard: ShardContext, heartbeat: Heartbeat, stopped: AbortSignal): LeaderParts => {
  const admitDue = createAdmitDue(shard);
  return {
    shard,
    heartbeat,
    reconciler: createReconciler(shard, stopped),
    leases: watchLeases(shard),
    keys: { after: null },
    admitDue,
    flow: createFlowRelease(shard, admitDue, stopped),
    dues: createDues(admitDue, stopped),
  };
};

export const createLeader = (shard: ShardContext, heartbeat: Heartbeat, stopped: AbortSignal): Leader => {
  const { log } = shard;
  const { name, type } = shard.gate.shard;
  const parts = partsOf(shard, heartbeat, stopped);
  let rounds = 0;
  let scan = Promise.resolve();
  let running: Promise<void> | undefined;
  let isFailing = false;

  const restore = async (): Promise<void> => {
    await restoreShard(shard);
    await heartbeat.beat();
    scan = scan
      .then(() => parts.reconciler.everything())
      .catch((error: unknown) => log.warn({ err: error, shard: name }, 'not every waiting job was admitted again'));
  };

  const round = async (leadership: Leadership, snapshot: ShardSnapshot): Promise<void> => {
    rounds += 1;
    const isOpen = snapshot.open && String(leadership.epoch) === snapshot.epoch;
    // A database that was restored from a backup is at another life of the shard.
    if (!isOpen) {
      if (heartbeat.latest() === snapshot) await restore();
      return;
    }
    if (!(await runDuties(parts, { snapshot, leadership, number: rounds }))) return;
    log.error({ shard: name }, 'jobs run without their leases: Redis lost some of its keys');
    await restore();
  };

  const attempt = async (leadership: Leadership, snapshot: ShardSnapshot): Promise<void> => {
    try {
      await round(leadership, snapshot);
      isFailing = false;
    } catch (error) {
      if (!isFailing)
        log.warn({ err: error, shard: name }, 'the work of the shard leader failed; trying again each second');
      isFailing = true;
    }
    running = undefined;
  };

  return {
    type,
    heartbeat,
    isBusy: () => running !== undefined,
    candidate: () => ({ name, type, compares: (rounds + 1) % reconcileEvery === 0 }),
    begin: (leadership, snapshot) => {
      running = attempt(leadership, snapshot);
    },
    admitDue: async () => void (await parts.admitDue()),
    settled: async () => {
      await running;
      await scan;
      await parts.dues.settled();
      await parts.flow.settled();
    },
  };
};
