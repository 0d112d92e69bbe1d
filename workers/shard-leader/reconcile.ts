import { runningSince, standings, startShardEpoch, waitingBetween } from '#domain/jobs/queue-shards.ts';
import { firstIdAt } from '#lib/ids.ts';
import type { Lease } from '#queues/gate/lease.ts';
import type { ShardSnapshot } from '#queues/gate/shard-gate.ts';
import { noteReconciled } from '#queues/metrics.ts';
import type { ShardContext } from './context.ts';

/** Changes that are younger may still be on their way. */
const settledAfterMs = 3000;
const pageSize = 1000;

type Held = { readonly lease: Lease; readonly projectId: string };

const beginning = '00000000-0000-0000-0000-000000000000';

/**
 * BullMQ lost them, or never had them: the rows are read again after the miss, since one may have started meanwhile.
 */
const handOverLost = async ({ db, gate, job }: ShardContext, epoch: string, held: readonly Held[]): Promise<void> => {
  const present = await gate.inBullmq(held.map(({ lease }) => lease));
  const missing = held.filter((_, i) => present[i] === false);
  if (missing.length === 0) return;
  const now = await standings(
    db,
    missing.map(({ lease }) => lease.id),
  );
  const lost = missing.filter(({ lease }) => now.get(lease.id) === 'queued');
  if (lost.length === 0) return;
  noteReconciled(job.type, 'lost_handover', lost.length);
  await gate.handOverOnceMore(epoch, lost);
};

/** Leases whose job has ended, is gone or waits for a retry are freed; of the others, BullMQ must know. */
const checkLeases = async (shard: ShardContext, snapshot: ShardSnapshot): Promise<void> => {
  const { db, gate, job } = shard;
  const settled = (await gate.leases()).filter(
    ({ lease }) => Math.abs(snapshot.now - Number(lease.nonce)) > settledAfterMs,
  );
  if (settled.length === 0) return;
  const rows = await standings(
    db,
    settled.map(({ lease }) => lease.id),
  );
  const standing = ({ lease }: Held): string => rows.get(lease.id) ?? 'ended';
  const idle = settled.filter((held) => standing(held) === 'ended' || standing(held) === 'later');
  if (idle.length > 0) noteReconciled(job.type, 'lease_of_ended_job', idle.length);
  await Promise.all(idle.map(({ lease }) => gate.finish(lease)));
  const queued = settled.filter((held) => standing(held) === 'queued');
  // A restored lease is one of a job that ran: it began before, so BullMQ may not know it any more.
  await handOverLost(shard, snapshot.epoch, queued);
};

/** A part of what waits, and when to stop; at least one page of it is compared. */
interface Stretch {
  readonly after: string;
  readonly until: string;
  /** By `performance.now()`. */
  readonly ends: number;
}

/** Admits what waits by its row and is unknown to the gate. Answers the last id it saw; null when it saw all. */
const admitBetween = async (shard: ShardContext, stretch: Stretch, stopped: AbortSignal): Promise<string | null> => {
  const { db, gate, job, part } = shard;
  let { after } = stretch;
  do {
    const rows = await waitingBetween(db, { type: job.type, part, after, until: stretch.until, max: pageSize });
    const unknown = await gate.readmit(rows);
    if (unknown > 0) noteReconciled(job.type, 'not_queued', unknown);
    if (rows.length < pageSize) return null;
    after = rows.at(-1)?.id ?? after;
  } while (performance.now() < stretch.ends && !stopped.aborted);
  return after;
};

/** Compares one shard with Postgres, over and over, a bounded part each time. */
export interface Reconciler {
  /**
   * One round: every lease, the waiting jobs that were not compared yet, and, once all were, some of the others again.
   * Each part continues where the last round stopped, so that no row is skipped.
   * @param waiting whether jobs wait by their rows, asked after `snapshot` was heard
   */
  readonly round: (snapshot: ShardSnapshot, waiting: boolean) => Promise<void>;
  /** All that waits, after the shard was restored. */
  readonly everything: () => Promise<void>;
}

/**
 * A page of 1,000 jobs that the gate knows takes some 15 ms. New rows have 2 s of each round, which come every 5 s:
 * less than the lead of a shard lasts. Comparing again what was compared has 0.5 s, so that a long backlog does not
 * cost Redis more than a tenth of its time.
 */
const followMs = 2000;
const recompareMs = 500;

/** @param budget ms of a round, for tests */
export const createReconciler = (
  shard: ShardContext,
  stopped: AbortSignal,
  budget = { followMs, recompareMs },
): Reconciler => {
  /** All rows up to this one were compared since this process leads the shard. */
  let followed = beginning;
  let recompared = beginning;
  return {
    round: async (snapshot, waiting) => {
      await checkLeases(shard, snapshot);
      // Rows are committed a little after their ids are made.
      const settled = firstIdAt(snapshot.now - 8000);
      if (!waiting) {
        [followed, recompared] = [settled, beginning];
        return;
      }
      const until = firstIdAt(snapshot.now - settledAfterMs);
      const stretch = { until, ends: performance.now() + budget.followMs };
      const rest = await admitBetween(shard, { ...stretch, after: followed }, stopped);
      followed = rest ?? settled;
      if (rest !== null) return;
      const recompare = { until, after: recompared, ends: performance.now() + budget.recompareMs };
      recompared = (await admitBetween(shard, recompare, stopped)) ?? beginning;
    },
    everything: async () => {
      const all = { after: beginning, until: firstIdAt(Date.now() + 60_000), ends: Number.POSITIVE_INFINITY };
      await admitBetween(shard, all, stopped);
    },
  };
};

/** A run gives up its lease a moment before Postgres has its end, and gets it a moment before it begins. */
const settledSeconds = 3;

/** Finds runs that hold no lease: Redis lost leases, by an eviction or by somebody's hand. */
export interface LeaseWatch {
  /** True when the shard's leases are incomplete, so that more jobs could be handed over than may run. */
  readonly isBroken: () => Promise<boolean>;
}

/**
 * A run counts when it is found twice in a row, and no end of it is known: its end may just be on its way to Postgres.
 */
export const watchLeases = ({ db, gate, job, part, outcomes }: ShardContext): LeaseWatch => {
  let suspects: ReadonlySet<string> = new Set();
  return {
    isBroken: async () => {
      const running = await runningSince(db, { type: job.type, part, seconds: settledSeconds });
      const held = await gate.holders(running.map(({ id }) => id));
      const without = running.filter((_, nth) => held[nth] === false);
      const twice = without.filter(({ run_id: runId }) => suspects.has(runId));
      suspects = new Set(without.map(({ run_id: runId }) => runId));
      for (const { id, run_id: runId } of twice) {
        if ((await outcomes.find(id, runId)) === null) return true;
      }
      return false;
    },
  };
};

/**
 * Opens a shard again after Redis lost its memory, or some of it: first no job that was handed over before can start
 * any more, then running jobs get their leases back, then the gate opens. Waiting jobs are admitted again after that.
 */
export const restoreShard = async ({ db, gate, rules, job, part, log }: ShardContext): Promise<void> => {
  const { name, type } = gate.shard;
  const { epoch, running } = await startShardEpoch(db, { name, type, part });
  await gate.setGlobalLimit(await rules.globalLimitOf(type));
  await gate.setPauses(await rules.pausesOf(type));
  await gate.restore(epoch, running);
  noteReconciled(job.type, 'gate_lost');
  log.info({ shard: name, epoch, running: running.length }, 'the gate was opened from Postgres');
};
