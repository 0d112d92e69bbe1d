import { admitKeyed } from '#domain/jobs/concurrency.ts';
import { type Released, holdersOf, releaseHeld, renewStarts } from '#domain/jobs/flow.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import type { ShardContext } from './context.ts';

/** Starts are given away for a little longer than it takes until the next pass, and come in steps of this length. */
const leastHorizonMs = 1250;
const maxPassMs = 10_000;
const stepMs = 50;

/** Lets go of jobs that wait for their function: for its rate, or to become a batch. */
export interface FlowRelease {
  /**
   * Begins a pass, unless one is under way. Whoever leads does not wait for it: hundreds of functions take seconds, in
   * which nobody else's job that is due would start.
   */
  readonly begin: () => void;
  /** Resolves when no pass is under way. */
  readonly settled: () => Promise<void>;
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
  let horizonMs = leastHorizonMs;
  let passing: Promise<void> | undefined;
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

  const pass = async (): Promise<void> => {
    const began = performance.now();
    const { found, last } = await holdersOf(shard.db, { type: shard.job.type, part: shard.part, after });
    for (const functionId of found) {
      if (stopped.aborted) return;
      const released = await releaseHeld(shard.db, functionId, horizonMs);
      await admit(shard, released);
      // Starts far ahead are found by the passes of their time.
      for (const ms of released.later) if (ms <= horizonMs) admitAt(ms);
    }
    after = last;
    horizonMs = leastHorizonMs + Math.min(maxPassMs, performance.now() - began);
  };

  return {
    begin: () => {
      passing ??= pass()
        .catch((error: unknown) => shard.log.warn({ err: error }, 'jobs that functions hold wait for the next pass'))
        .finally(() => {
          passing = undefined;
        });
    },
    settled: async () => passing,
    renew: async () => {
      if (shard.job.type === functionInvoke.type) await renewStarts(shard.db);
    },
  };
};
