import { startShardEpoch } from '#domain/jobs/queue-shards.ts';
import { noteReconciled } from '#queues/metrics.ts';
import type { ShardContext } from './context.ts';

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
