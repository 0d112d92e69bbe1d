import { setTimeout as pause } from 'node:timers/promises';
import { toServiceError } from '#lib/errors.ts';
import type { JobData, JobError, JobOutcome } from '#queues/define.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import type { LinesSource } from '#queues/signals.ts';
import { givenUp } from './give-up.ts';
import { JobAsleep, type JobContext, JobParked } from './processor.ts';
import { type RunLines, createRunLines } from './run-lines.ts';
import { type RunningJob, type StopReason, stopReasonOf } from './running.ts';
import type { Work } from './work.ts';

/** The end of one run: the job ended, is retried later, waits for an answer, or goes back as if it had not started. */
export type Ran =
  | { readonly kind: 'ended'; readonly outcome: JobOutcome }
  | { readonly kind: 'again'; readonly error: JobError }
  | { readonly kind: 'parked'; readonly parked: JobParked }
  | { readonly kind: 'asleep'; readonly asleep: JobAsleep }
  | { readonly kind: 'back' };

const retryBaseMs = 500;
const slowestRetryMs = 10 * 60_000;
/** BullMQ must have let go of the job before it comes again. */
const quickestRetryMs = 50;

/** Full jitter: retries of many jobs do not come back as one wave. With a least time, some jitter on top of it. */
export const backoff = (attempt: number, fromMs?: number): number => {
  if (fromMs !== undefined) return Math.min(slowestRetryMs, fromMs * 2 ** (attempt - 1)) * (1 + Math.random() / 4);
  return quickestRetryMs + Math.random() * Math.min(slowestRetryMs, retryBaseMs * 2 ** attempt);
};

/** A run that does not stop on request is given up after so long. */
const stopGraceMs = 10_000;
const progressEveryMs = 500;

const reasons: Readonly<Record<StopReason, JobError>> = {
  cancelled: { code: 'cancelled', message: 'The job was cancelled.' },
  timeout: { code: 'timeout', message: 'The job did not end within its time-out.' },
  drain: { code: 'crashed', message: 'The worker was stopped in the middle of the run.' },
};

const ended = (outcome: JobOutcome): Ran => ({ kind: 'ended', outcome });

const contextOf = (
  { deps, started, delivery, runId, continuation }: Work,
  signal: AbortSignal,
  lines: RunLines,
): JobContext => {
  let progressAt = 0;
  const { id: jobId } = started;
  return {
    jobId,
    projectId: delivery.projectId,
    requestId: started.request_id,
    attempt: started.attempt,
    continuation: {
      runId,
      isPossible: () => {
        continuation.isPossible = true;
      },
    },
    waitedMs: started.waited_ms,
    envVersion: started.env_version,
    depth: started.depth,
    signal,
    isAwaited: started.reply_to !== null,
    openAnswer: async () => (started.reply_to === null ? null : deps.answers.open(jobId, started.reply_to)),
    progress: (percent) => {
      // A run that was stopped and goes on has no effect any more.
      if (signal.aborted || Number.isNaN(percent)) return;
      const progress = Math.max(0, Math.min(100, Math.round(percent)));
      deps.recorder.progress(jobId, progress);
      if (progress < 100 && performance.now() - progressAt < progressEveryMs) return;
      progressAt = performance.now();
      deps.signals.announce(jobId, { event: 'progress', progress });
    },
    log: lines.add,
  };
};

const jobOf = ({ started, delivery, processor, deps }: Work) => ({
  processor,
  log: deps.log,
  job: { jobId: started.id, projectId: delivery.projectId },
});

/** A run that was stopped may still have ended well a moment before. */
const whenStopped = async (work: Work, reason: StopReason, outcome: JobOutcome | null): Promise<Ran> => {
  if (outcome?.status === 'succeeded') return ended(outcome);
  const error = reasons[reason];
  const { result = null, report = null } = outcome ?? {};
  if (reason === 'cancelled') return ended({ status: 'cancelled', result, error, report });
  if (reason === 'drain' && (work.job.repeatable || work.continuation.isPossible)) return { kind: 'back' };
  return ended({ ...(await givenUp(jobOf(work), 'failed', error)), report });
};

/** A fault of ours is tried again, as long as there are attempts; one of the request is not. */
const whenThrown = async (work: Work, thrown: unknown): Promise<Ran> => {
  const { deps, job, started } = work;
  if (thrown instanceof JobParked) return { kind: 'parked', parked: thrown };
  if (thrown instanceof JobAsleep) return { kind: 'asleep', asleep: thrown };
  const { code, message, status } = toServiceError(thrown);
  const isOurs = status >= 500;
  if (isOurs) deps.log.error({ err: thrown, attempt: started.attempt }, `${job.type} failed`);
  if (!isOurs) return ended(await givenUp(jobOf(work), 'failed', { code, message }));
  if (started.attempt < job.maxAttempts) return { kind: 'again', error: { code, message } };
  return ended(await givenUp(jobOf(work), 'dead', { code, message }));
};

const misfit: JobError = { code: 'internal', message: 'The job failed on our side.' };

/** Resolves when a run that was asked to stop has not done so in time. */
const overdue = async (signal: AbortSignal): Promise<'overdue'> => {
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  return pause(stopGraceMs, 'overdue', { ref: false });
};

type Attempt = { readonly outcome: JobOutcome } | { readonly thrown: unknown };

/** A processor that throws before it returns a promise has thrown all the same. */
const attemptOf = (run: () => Promise<JobOutcome>): Promise<Attempt> =>
  Promise.try(run).then(
    (outcome) => ({ outcome }),
    (thrown: unknown) => ({ thrown }),
  );

const isReported = (attempt: Attempt | 'overdue'): boolean => {
  if (attempt === 'overdue') return false;
  if ('thrown' in attempt) return attempt.thrown instanceof JobAsleep && attempt.thrown.sleep.report !== null;
  return 'report' in attempt.outcome && attempt.outcome.report !== null;
};

/** The function whose run it is. */
const sourceOf = ({ job, delivery: { projectId } }: Work, data: unknown): LinesSource | undefined =>
  job.type === functionInvoke.type
    ? { projectId, functionId: (data as JobData<typeof functionInvoke>).function_id }
    : undefined;

/** Within its time-out and until it is stopped. */
const attemptWithin = async (work: Work, data: unknown, signal: AbortSignal): Promise<Ran> => {
  const { deps, job } = work;
  const lines = createRunLines(deps, work.started.id, sourceOf(work, data));
  const running = attemptOf(() => work.run(data, contextOf(work, signal, lines)));
  const attempt = await Promise.race([running, overdue(signal)]);
  lines.end(isReported(attempt));
  const reason = stopReasonOf(signal);
  if (attempt === 'overdue') {
    deps.log.error({ job_type: job.type }, 'a job goes on after it was cancelled');
    return whenStopped(work, reason ?? 'timeout', null);
  }
  if (reason !== null) return whenStopped(work, reason, 'outcome' in attempt ? attempt.outcome : null);
  return 'outcome' in attempt ? ended(attempt.outcome) : whenThrown(work, attempt.thrown);
};

/** Runs a started job once. */
export const runOnce = async (work: Work, { signal, stop }: RunningJob): Promise<Ran> => {
  const { deps, job, started } = work;
  const early = stopReasonOf(signal);
  if (early !== null) return whenStopped(work, early, null);
  const data = job.data.safeParse(JSON.parse(started.data));
  if (!data.success) {
    deps.log.error({ err: data.error }, 'the data of a job do not fit it');
    return ended(await givenUp(jobOf(work), 'failed', misfit));
  }
  const timer = setTimeout(() => stop('timeout'), job.timeoutMs);
  try {
    return await attemptWithin(work, data.data, signal);
  } finally {
    clearTimeout(timer);
  }
};
