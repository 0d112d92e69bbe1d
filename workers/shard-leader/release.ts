import { admitKeyed } from '#domain/jobs/concurrency.ts';
import { type Released, holdersOf, releaseHeld, renewStarts } from '#domain/jobs/flow.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import type { ShardContext } from './context.ts';

/** Starts are given away for a little longer than a round lasts, and come in steps of this length. */
const horizonMs = 1250;
const stepMs = 50;

/** Lets go of jobs that wait for their function: for its rate, or to become a batch. */
export interface FlowRelease {
  readonly round: () => Promise<void>;
  /** Gives jobs other starts that got theirs before the clock was set back. */
  readonly renew: () => Promise<void>;
}

const admit = async ({ db, gate, job: { type } }: ShardContext, { ready, keyed }: Released): Promise<void> => {
  if (ready.length > 0) await gate.readmit(ready);
  for (const [projectId, keys] of Map.groupBy(keyed, (each) => each.projectId)) {
    const admitted = await admitKeyed(db, { type, projectId, keys: keys.map(({ key }) => key) });
    if (admitted.length > 0) await gate.readmit(admitted);
  }
};

/**
 * @param admitDue admits jobs whose time has come; called at the starts that were given away, since a round is a second
 * @param stopped nothing is admitted any more
 */
export const createFlowRelease = (
  shard: ShardContext,
  admitDue: () => Promise<unknown>,
  stopped: AbortSignal,
): FlowRelease => {
  let after: string | null = null;
  const steps = new Set<number>();

  const admitAt = (ms: number): void => {
    const step = Math.ceil((performance.now() + ms) / stepMs);
    if (steps.has(step)) return;
    steps.add(step);
    setTimeout(
      () => {
        steps.delete(step);
        if (!stopped.aborted)
          admitDue().catch((error: unknown) => shard.log.debug({ err: error }, 'jobs start with the next round'));
      },
      step * stepMs - performance.now(),
    ).unref();
  };

  return {
    round: async () => {
      const { found, last } = await holdersOf(shard.db, { type: shard.job.type, part: shard.part, after });
      for (const functionId of found) {
        const released = await releaseHeld(shard.db, functionId, horizonMs);
        await admit(shard, released);
        // Starts far ahead are found by the rounds of their time.
        for (const ms of released.later) if (ms <= horizonMs) admitAt(ms);
      }
      after = last;
    },
    renew: async () => {
      if (shard.job.type === functionInvoke.type) await renewStarts(shard.db);
    },
  };
};
