import { setTimeout as pause } from 'node:timers/promises';
import { findEnd } from '#domain/jobs/store.ts';
import { withLogContext } from '#lib/context.ts';
import type { Queryable } from '#lib/control-db.ts';
import { toServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import type { JobDefinition, JobError, JobMessage, JobOutcome } from '#queues/define.ts';
import { jobOfType } from '#queues/registry.ts';
import type { Outcomes } from '#queues/replies.ts';
import { insist } from './insist.ts';
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

/** Runs one kind of job. */
export interface Processor {
  /**
   * Faults of user code are outcomes. What it throws is a fault of ours or of a dependency, before user code began: the
   * job is tried again.
   */
  readonly run: (data: unknown, context: JobContext) => Promise<JobOutcome>;
  /** The last word on a job that was tried often enough, or whose worker died. Left out: it failed, without a result. */
  readonly giveUp?: (error: JobError, context: JobContext) => Promise<JobOutcome>;
}

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

/** Full jitter: retries of many jobs do not come back as one wave. */
const backoff = (attempt: number): number => Math.random() * retryBaseMs * 2 ** attempt;

const crash: JobError = { code: 'crashed', message: 'The worker stopped in the middle of the run.' };

/** What one job has on its way through `runJob`. */
interface Work {
  readonly deps: RunJobDeps;
  readonly job: JobDefinition;
  readonly message: JobMessage;
  readonly processor: Processor;
}

interface Ran {
  readonly outcome: JobOutcome;
  readonly attempt: number;
}

const contextOf = ({ deps, message }: Work, attempt: number): JobContext => {
  const { id: jobId, projectId, requestId } = message;
  return { jobId, projectId, requestId, attempt, signal: deps.signal };
};

const giveUp = async (work: Work, error: JobError, attempt: number): Promise<Ran> => {
  const { processor, deps } = work;
  const last = processor.giveUp ?? (() => Promise.resolve({ status: 'failed', result: null, error } as const));
  const outcome = await insist(deps.log, 'giving up a job', () => last(error, contextOf(work, attempt)));
  return { outcome, attempt };
};

/** Tries until it works, trying again cannot help, or the attempts are used up. */
const tryOften = async (work: Work, data: unknown, first: number): Promise<Ran> => {
  const { deps, job, processor } = work;
  for (let attempt = first; ; attempt += 1) {
    try {
      return { outcome: await processor.run(data, contextOf(work, attempt)), attempt };
    } catch (thrown) {
      const { code, message, status } = toServiceError(thrown);
      const isOurs = status >= 500;
      if (isOurs) deps.log.error({ err: thrown, attempt }, `${job.type} failed`);
      if (!isOurs || attempt >= job.maxAttempts) return giveUp(work, { code, message }, attempt);
      await pause(backoff(attempt));
    }
  }
};

/** What an attempt above 1 means: a worker died, and either it left the outcome, or the job was cut off. */
const recover = async ({ deps, job, message }: Work, attempt: number): Promise<JobOutcome | 'cut off' | 'again'> => {
  const left = await insist(deps.log, 'looking for an outcome', () => deps.outcomes.find(message.id));
  if (left !== null) return left;
  return job.repeatable && attempt <= job.maxAttempts ? 'again' : 'cut off';
};

const runBegun = async (work: Work, text: string, attempt: number): Promise<Ran> => {
  const state = attempt === 1 ? 'again' : await recover(work, attempt);
  if (state === 'cut off') return giveUp(work, crash, attempt - 1);
  if (state !== 'again') return { outcome: state, attempt: attempt - 1 };
  const data = work.job.data.safeParse(JSON.parse(text));
  if (data.success) return tryOften(work, data.data, attempt);
  work.deps.log.error({ err: data.error }, 'the data of a job do not fit it');
  return giveUp(work, { code: 'internal', message: 'The job failed on our side.' }, attempt);
};

/** What user code says of its failure may hold anything; a column of text cannot. */
const recordable = (outcome: JobOutcome): JobOutcome => {
  if (outcome.error === null) return outcome;
  const message = outcome.error.message.replaceAll('\0', '\uFFFD').toWellFormed();
  return { ...outcome, error: { ...outcome.error, message } };
};

const publish = ({ deps, message }: Work, outcome: JobOutcome): Promise<void> =>
  deps.outcomes.publish(message.id, outcome, message.replyTo);

/** Redis first, where the waiting caller is told; when it is away, Postgres first: one of them always knows. */
const settle = async (work: Work, { outcome, attempt }: Ran): Promise<void> => {
  const { deps, message } = work;
  const told = await publish(work, outcome).then(
    () => true,
    () => false,
  );
  await deps.recorder.end({ id: message.id, attempt, finishedAt: new Date(), outcome });
  if (!told) await insist(deps.log, 'telling the end of a job', () => publish(work, outcome));
  deps.outcomes
    .forget(message.id)
    .catch((error: unknown) => deps.log.debug({ err: error }, 'an outcome stays until it expires'));
};

/** A job that may not begin: its caller may still wait for the end that it had. */
const tellKnownEnd = async (work: Work): Promise<void> => {
  const { deps, message } = work;
  const end = await insist(deps.log, 'reading the end of a job', () => findEnd(deps.db, message.id));
  if (end === null || message.replyTo === null) return;
  await insist(deps.log, 'telling the end of a job', () => publish(work, end));
  await deps.outcomes.forget(message.id).catch(() => undefined);
};

const run = async (work: Work): Promise<void> => {
  const { deps, message } = work;
  const start = { id: message.id, runId: newId(), withData: message.data === null };
  const begun = await deps.recorder.begin(start);
  if (begun === null) return tellKnownEnd(work);
  const text = message.data ?? begun.data ?? 'null';
  const ran = await runBegun(work, text, begun.attempt);
  await settle(work, { ...ran, outcome: recordable(ran.outcome) });
};

/**
 * One job from the queue to its record. It begins in Postgres, which counts how often workers began it, so that a job
 * that was taken back never runs; its outcome is kept in Redis and its caller told (one step), then recorded in
 * Postgres, and only then BullMQ forgets it. A worker that dies in between leaves a job that the next one finishes.
 * Never throws for a known type: what BullMQ takes for failed it drops.
 */
export const runJob = (deps: RunJobDeps, type: string, message: JobMessage): Promise<void> =>
  withLogContext({ requestId: message.requestId, projectId: message.projectId, jobId: message.id }, () => {
    const job = jobOfType(type);
    const processor = deps.processors[type];
    if (job === undefined || processor === undefined) throw new Error(`this worker has no processor for ${type}`);
    return run({ deps, job, message, processor });
  });
