import { runningSince } from '#domain/jobs/queue-shards.ts';
import type { ShardContext } from './context.ts';

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
