import { type SuspectRun, suspectRuns } from '#domain/jobs/queue-shards.ts';
import { restartCrashed, retryByPolicy } from '#domain/jobs/changes.ts';
import { continueCrashed } from '#domain/jobs/steps.ts';
import { recordEnds } from '#domain/jobs/store.ts';
import type { JobError, JobOutcome } from '#queues/define.ts';
import type { KnownEnd } from '#queues/replies.ts';
import { type RetryPolicy, isRetried, pauseAfter } from '#queues/retry-policy.ts';
import { noteFinished, noteReconciled } from '#queues/metrics.ts';
import { lastWord } from '#workers/give-up.ts';
import type { ShardContext } from './context.ts';
import type { FailureDetector } from './heartbeat.ts';

/** A job under which so many workers died is not given to another one. */
const maxCrashes = 3;
const atOnce = 10;

const crashed: JobError = { code: 'crashed', message: 'The worker stopped in the middle of the run.' };
const poison: JobError = {
  code: 'poison',
  message: `${maxCrashes} workers died while they ran this job. It is not run again by itself.`,
};
const cancelled: JobError = { code: 'cancelled', message: 'The job was cancelled.' };

/** The end of a cut-off job; null when it is queued again. */
const endOf = async ({ job, processor }: ShardContext, run: SuspectRun): Promise<JobOutcome | null> => {
  const of = { processor, job: { jobId: run.id, projectId: run.project_id } };
  if (run.cancelled) return { status: 'cancelled', result: null, error: cancelled };
  if (!job.repeatable) return lastWord(of, run.retry === null ? 'failed' : 'dead', crashed);
  return run.crashes + 1 >= maxCrashes ? lastWord(of, 'dead', poison) : null;
};

/** The process that records the end frees the lease; when the run had ended after all, its worker did both. */
const end = async (shard: ShardContext, run: SuspectRun, { outcome, finishedAt }: KnownEnd): Promise<void> => {
  const { db, gate, outcomes, signals, job } = shard;
  const ended = await recordEnds(db, [{ id: run.id, runId: run.run_id, finishedAt, outcome }]);
  if (ended.ids.length === 0) return;
  noteFinished(job.type, outcome.status);
  await gate.finish({ id: run.id, nonce: '' });
  await outcomes.notify(run.id, outcome, run.reply_to);
  await outcomes.forget(run.id);
  signals.announce(run.id, { event: 'status', status: outcome.status, attempt: run.attempt });
};

/** Its worker died, and its own policy has another attempt for that. It goes through the gate anew. */
const retryOne = async (
  { db, gate, job, signals }: ShardContext,
  run: SuspectRun,
  policy: RetryPolicy,
): Promise<void> => {
  const broken = { id: run.id, runId: run.run_id, error: crashed, report: 'crashed' };
  if (!(await retryByPolicy(db, broken, pauseAfter(policy, run.attempt)))) return;
  noteReconciled(job.type, 'dead_worker');
  await gate.finish({ id: run.id, nonce: '' });
  signals.announce(run.id, { event: 'status', status: 'queued', attempt: run.attempt });
};

/** Its worker died, and its steps are recorded: it goes on, unless no step was over since several workers died. */
const continueOne = async (shard: ShardContext, run: SuspectRun): Promise<void> => {
  const { db, gate, job, signals, processor } = shard;
  const of = { processor, job: { jobId: run.id, projectId: run.project_id } };
  noteReconciled(job.type, 'dead_worker');
  if (run.crashes + 1 >= maxCrashes) {
    return end(shard, run, { outcome: await lastWord(of, 'dead', poison), finishedAt: new Date() });
  }
  if (!(await continueCrashed(db, { jobId: run.id, runId: run.run_id, message: crashed.message }))) return;
  await gate.renew([{ id: run.id }]);
  signals.announce(run.id, { event: 'status', status: 'queued', attempt: run.attempt });
};

/** Another run of a job that may have one; null: it may not. */
const nextRunOf = (run: SuspectRun): ((shard: ShardContext) => Promise<void>) | null => {
  const { has_steps: hasSteps, retry: policy, attempt } = run;
  if (hasSteps) return (shard) => continueOne(shard, run);
  if (policy === null || !isRetried(policy, attempt, crashed.code)) return null;
  return (shard) => retryOne(shard, run, policy);
};

/** A run of a dead worker: it left its outcome, or the job ends here, or it is queued again. */
const reapOne = async (shard: ShardContext, run: SuspectRun): Promise<void> => {
  const { db, gate, outcomes, job } = shard;
  const left = await outcomes.find(run.id, run.run_id);
  const next = left === null && !run.cancelled ? nextRunOf(run) : null;
  if (next !== null) return next(shard);
  const outcome = left?.outcome ?? (await endOf(shard, run));
  noteReconciled(job.type, 'dead_worker');
  if (outcome !== null) return end(shard, run, { outcome, finishedAt: left?.finishedAt ?? new Date() });
  const isBack = await restartCrashed(db, { id: run.id, runId: run.run_id, error: crashed });
  // It keeps its place: were that freed first, another would have it, and this one could still begin by the delivery
  // that the dead worker had. Without a place (Redis lost it) the reconciler admits it.
  if (isBack) await gate.renew([{ id: run.id }]);
};

const reapOrRemind = async (shard: ShardContext, detector: FailureDetector, run: SuspectRun): Promise<void> => {
  const isDead = run.worker_id === null || detector.isDead(run.worker_id, performance.now());
  if (isDead && !run.seen) await reapOne(shard, run);
  else if (run.cancelled) await shard.signals.requestCancel(run.id);
};

/**
 * Ends or restarts the runs of dead workers, and repeats cancellations to live ones. One that fails does not delay the
 * others; it is retried in the next round.
 */
export const reap = async (shard: ShardContext, detector: FailureDetector): Promise<void> => {
  const { db, job, part, log } = shard;
  const runs = await suspectRuns(db, { type: job.type, part, alive: detector.alive(performance.now()) });
  for (let i = 0; i < runs.length; i += atOnce) {
    await Promise.all(
      runs.slice(i, i + atOnce).map((run) =>
        reapOrRemind(shard, detector, run).catch((error: unknown) => {
          log.warn({ err: error, job_id: run.id }, 'a run of a dead worker could not be ended yet');
        }),
      ),
    );
  }
};
