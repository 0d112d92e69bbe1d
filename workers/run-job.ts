import { jobData } from '#domain/jobs/store.ts';
import { withLogContext } from '#lib/context.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { JobDefinition, JobMessage, JobOutcome } from '#queues/define.ts';
import { jobOfType } from '#queues/registry.ts';
import type { Outcomes } from '#queues/replies.ts';
import type { Recorder } from './recorder.ts';

/** What a processor knows of the job beside its data. */
export interface JobContext {
  readonly jobId: string;
  readonly projectId: string;
  readonly requestId: string;
  /** 1 for the first run. */
  readonly attempt: number;
  /** Aborted when the job must stop. */
  readonly signal: AbortSignal;
}

/** Runs one kind of job. Faults of user code are outcomes; what it throws is a fault of ours or of a dependency. */
export type Processor = (data: unknown, context: JobContext) => Promise<JobOutcome>;

export type Processors = Readonly<Record<string, Processor>>;

export interface RunJobDeps {
  readonly db: Queryable;
  readonly log: Log;
  readonly outcomes: Outcomes;
  readonly recorder: Recorder;
  readonly processors: Processors;
  readonly signal: AbortSignal;
}

const retryBaseMs = 500;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Full jitter: retries of many jobs do not come back as one wave. */
const backoff = (attempt: number): number => Math.random() * retryBaseMs * 2 ** attempt;

const failed = (code: string, message: string): JobOutcome => ({
  status: 'failed',
  result: null,
  error: { code, message },
});

/** A worker died under the job, and what it did before cannot be done twice, or was tried often enough. */
const crashed = (job: JobDefinition): JobOutcome => ({
  status: job.maxAttempts > 1 ? 'dead' : 'failed',
  result: null,
  error: { code: 'crashed', message: 'The worker stopped in the middle of the run.' },
});

const outcomeOfThrown = (error: unknown): JobOutcome =>
  error instanceof ServiceError ? failed(error.code, error.message) : failed('internal', 'The job failed on our side.');

const dataOf = async (deps: RunJobDeps, job: JobDefinition, message: JobMessage): Promise<unknown> => {
  const text = message.data ?? (await jobData(deps.db, message.id));
  if (text === undefined) throw new ServiceError('not_found', 'The job was taken back before it ran.');
  return job.data.parse(JSON.parse(text));
};

/** Tries until it works, the attempts are used up or the worker stops. */
const attempt = async (
  deps: RunJobDeps,
  job: JobDefinition,
  message: JobMessage,
  first: number,
): Promise<JobOutcome> => {
  const process = deps.processors[job.type];
  if (process === undefined) throw new Error(`no processor for ${job.type}`);
  for (let number = first; ; number += 1) {
    const { id: jobId, projectId, requestId } = message;
    try {
      return await process(await dataOf(deps, job, message), {
        jobId,
        projectId,
        requestId,
        attempt: number,
        signal: deps.signal,
      });
    } catch (error) {
      deps.log.error({ err: error, attempt: number }, `${job.type} failed`);
      if (number >= job.maxAttempts || deps.signal.aborted) return outcomeOfThrown(error);
      await pause(backoff(number));
    }
  }
};

const run = async (deps: RunJobDeps, job: JobDefinition, message: JobMessage, start: number): Promise<void> => {
  const at = new Date();
  const known = start > 1 ? await deps.outcomes.find(message.id) : null;
  const again = start > job.maxAttempts;
  if (known === null && !again) deps.recorder.started({ id: message.id, attempt: start, at });
  const outcome = known ?? (again ? crashed(job) : await attempt(deps, job, message, start));
  if (known === null) await deps.outcomes.publish(message.id, outcome, message.replyTo);
  await deps.recorder.ended({
    id: message.id,
    attempt: Math.min(start, job.maxAttempts),
    at,
    finishedAt: new Date(),
    outcome,
  });
  deps.outcomes
    .forget(message.id)
    .catch((error: unknown) => deps.log.debug({ err: error }, 'an outcome stays until it expires'));
};

/**
 * One job from the queue to its record: run it, keep the outcome and tell who waits (one step), record it in Postgres,
 * and only then let BullMQ forget it. A worker that dies in between leaves a job that the next one finishes.
 * @param start how often a worker has begun this job, this time included
 */
export const runJob = (deps: RunJobDeps, type: string, message: JobMessage, start: number): Promise<void> =>
  withLogContext({ requestId: message.requestId, projectId: message.projectId, jobId: message.id }, () => {
    const job = jobOfType(type);
    if (job === undefined) throw new Error(`no job is called ${type}`);
    return run(deps, job, message, start);
  });
