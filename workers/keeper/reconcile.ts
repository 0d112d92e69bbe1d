import { epochOf, standings, waitingBetween } from '#domain/jobs/lanes.ts';
import { noteReconciled } from '#queues/metrics.ts';
import type { Lease, Pulse } from '#queues/gate/lane-gate.ts';
import type { KeptLane } from './lane.ts';

/** What happened later than that may still be on its way. */
const settledAfterMs = 3000;
const pageSize = 1000;

type Held = { readonly lease: Lease; readonly projectId: string };

/** The lowest and the highest UUIDv7 of a millisecond. */
const firstId = (ms: number): string => {
  const hex = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
};
const beginning = '00000000-0000-0000-0000-000000000000';

/** BullMQ lost them, or never had them: the rows are read once more after the miss, since one may just have begun. */
const handOverLost = async ({ db, gate, job }: KeptLane, epoch: string, held: readonly Held[]): Promise<void> => {
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
  await gate.handOverAgain(epoch, lost);
};

/** Leases whose job has ended, is gone or waits for a retry are freed; of the others, BullMQ must know. */
const checkLeases = async (lane: KeptLane, pulse: Pulse): Promise<void> => {
  const { db, gate, job } = lane;
  const settled = (await gate.leases()).filter(({ lease }) => pulse.now - Number(lease.nonce) > settledAfterMs);
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
  await handOverLost(lane, pulse.epoch, queued);
};

/** Admits what waits by its row and is unknown to the gate, from one id up to another. Answers the last id it saw. */
const admitBetween = async (lane: KeptLane, after: string, until: string, pages: number): Promise<string | null> => {
  const { db, gate, job, holds } = lane;
  let from = after;
  for (let page = 0; page < pages; page += 1) {
    const rows = await waitingBetween(db, { type: job.type, after: from, until, most: pageSize });
    const unknown = await gate.readmit(rows.filter((row) => holds(row.projectId)));
    if (unknown > 0) noteReconciled(job.type, 'not_queued', unknown);
    if (rows.length < pageSize) return null;
    from = rows.at(-1)?.id ?? from;
  }
  return from;
};

/** Compares one lane with Postgres, over and over, a bounded part each time. */
export interface Reconciler {
  /** One round: every lease, the jobs of the last moments, and some of the older ones. */
  readonly round: (pulse: Pulse) => Promise<void>;
  /** All that waits, after the lane was restored. */
  readonly everything: () => Promise<void>;
  /** Whether Postgres is at the same life of the lane. */
  readonly agrees: (pulse: Pulse) => Promise<boolean>;
}

export const createReconciler = (lane: KeptLane): Reconciler => {
  let recent = beginning;
  let cursor = beginning;
  return {
    agrees: async ({ epoch }) => String(await epochOf(lane.db, lane.gate.lane.name)) === epoch,
    round: async (pulse) => {
      await checkLeases(lane, pulse);
      const until = firstId(pulse.now - settledAfterMs);
      const overlap = firstId(pulse.now - 60_000);
      // Rows are committed a little after their ids are made.
      recent = (await admitBetween(lane, recent > overlap ? recent : overlap, until, 100)) ?? firstId(pulse.now - 8000);
      cursor = (await admitBetween(lane, cursor, until, 2)) ?? beginning;
    },
    everything: async () => {
      await admitBetween(lane, beginning, firstId(Date.now() + 60_000), Number.POSITIVE_INFINITY);
    },
  };
};
