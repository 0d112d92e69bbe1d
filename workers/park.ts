import type { JobAsleep, JobParked } from './processor.ts';
import { backoff } from './run-once.ts';
import type { Work } from './work.ts';

/** Runs the job again: at once when its answer came, later when the answer was a failure. */
const resume = async ({ deps, job, started }: Work, isAnswered: boolean): Promise<void> => {
  const delayMs = isAnswered ? 0 : backoff(started.attempt, job.retryFromMs);
  if (await deps.recorder.resume(started.id, { delayMs, counts: !isAnswered })) deps.retryIn(job.type, delayMs);
};

/**
 * Puts a job back that only waits for an answer: meanwhile it holds no place at the gate and no slot of this worker.
 * When this worker dies, the job runs again after `maxMs`.
 */
export const park = async (work: Work, { answered, maxMs }: JobParked, left: Promise<void>): Promise<void> => {
  const { deps, started, runId } = work;
  const isParked = await deps.recorder.park({ id: started.id, runId }, maxMs);
  await left;
  if (!isParked) return;
  deps.signals.announce(started.id, { event: 'status', status: 'queued', attempt: started.attempt });
  // Not awaited: the answer may take minutes, and this worker's slot is for others.
  void answered
    .then(
      () => resume(work, true),
      () => resume(work, false),
    )
    .catch((error: unknown) =>
      deps.log.warn({ err: error }, 'a parked job could not be resumed; it runs again when its time is up'),
    );
};

/** Runs that are due so soon are not left to the leader of their shard, who looks less often. */
const soonMs = 1000;

/**
 * Puts a run to sleep whose steps wait: until the first of them is over it holds no place at the gate and no slot. A
 * caller that waits is told.
 */
export const fallAsleep = async (work: Work, { sleep }: JobAsleep, left: Promise<void>): Promise<void> => {
  const { deps, started, runId, job } = work;
  const asleep = await deps.recorder.sleep({ ...sleep, id: started.id, runId });
  await left;
  if (asleep === undefined) return;
  deps.signals.announce(started.id, { event: 'status', status: asleep.status, attempt: started.attempt });
  if (asleep.in_ms < soonMs) deps.retryIn(job.type, Math.max(0, asleep.in_ms));
  await deps.outcomes
    .notifyAsleep(started.id, started.reply_to)
    .catch((error: unknown) => deps.log.debug({ err: error }, 'a caller waits for a run that sleeps'));
};
