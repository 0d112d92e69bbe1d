import type { JobParked } from './processor.ts';
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
