import type { Log } from '#lib/log.ts';
import type { JobError, JobOutcome } from '#queues/define.ts';
import { insist } from './insist.ts';
import type { JobContext, Processor } from './processor.ts';

export interface GivenUpJob {
  readonly processor: Processor;
  readonly log: Log;
  readonly job: Pick<JobContext, 'jobId' | 'projectId'>;
}

/** How a job ends that has no outcome of its own. */
export const givenUp = async (
  { processor, log, job }: GivenUpJob,
  status: 'failed' | 'dead',
  error: JobError,
): Promise<JobOutcome> => {
  const last = processor.giveUp;
  const result = last ? await insist(log, 'giving up a job', () => last(error, job)) : null;
  return { status, result, error };
};
