import type { Log } from '#lib/log.ts';
import type { JobError, JobOutcome } from '#queues/define.ts';
import { retryUntilDone } from './retry-until-done.ts';
import type { JobContext, Processor } from './processor.ts';

export interface GivenUpJob {
  readonly processor: Processor;
  readonly job: Pick<JobContext, 'jobId' | 'projectId'>;
}

/** How a job ends that has no outcome of its own. Rejects when its last word cannot be had just now. */
export const lastWord = async (
  { processor, job }: GivenUpJob,
  status: 'failed' | 'dead',
  error: JobError,
): Promise<JobOutcome> => ({ status, result: (await processor.giveUp?.(error, job)) ?? null, error });

/** The same, however long it takes. */
export const givenUp = (
  of: GivenUpJob & { readonly log: Log },
  status: 'failed' | 'dead',
  error: JobError,
): Promise<JobOutcome> => retryUntilDone(of.log, 'giving up a job', () => lastWord(of, status, error));
