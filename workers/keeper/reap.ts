import { type SuspectRun, suspectRuns } from '#domain/jobs/lanes.ts';
import { restartCrashed } from '#domain/jobs/retries.ts';
import { recordEnds } from '#domain/jobs/store.ts';
import type { JobError, JobOutcome } from '#queues/define.ts';
import { noteFinished, noteReconciled } from '#queues/metrics.ts';
import { givenUp } from '../give-up.ts';
import type { KeptLane } from './lane.ts';
import type { Silence } from './silence.ts';

/** A job under which so many workers died is not given to another one. */
const mostCrashes = 3;

const crashed: JobError = { code: 'crashed', message: 'The worker stopped in the middle of the run.' };
const poison: JobError = {
  code: 'poison',
  message: `${mostCrashes} workers died while they ran this job. It is not run again by itself.`,
};
const cancelled: JobError = { code: 'cancelled', message: 'The job was cancelled.' };

/** How a cut-off job ends; null when it begins anew. */
const endOf = async ({ job, processor, log }: KeptLane, run: SuspectRun): Promise<JobOutcome | null> => {
  const of = { processor, log, job: { jobId: run.id, projectId: run.project_id } };
  if (run.cancelled) return { status: 'cancelled', result: null, error: cancelled };
  if (!job.repeatable) return givenUp(of, 'failed', crashed);
  return run.crashes + 1 >= mostCrashes ? givenUp(of, 'dead', poison) : null;
};

const record = async (lane: KeptLane, run: SuspectRun, outcome: JobOutcome): Promise<void> => {
  const { db, outcomes, signals, job } = lane;
  await recordEnds(db, [{ id: run.id, runId: run.run_id, finishedAt: new Date(), outcome }]);
  noteFinished(job.type, outcome.status);
  await outcomes.tell(run.id, outcome, run.reply_to);
  await outcomes.forget(run.id);
  signals.announce(run.id, { event: 'status', status: outcome.status, attempt: run.crashes + 1 });
};

/** A run of a dead worker: it left its outcome, or the job ends here, or it begins anew. */
const reapOne = async (lane: KeptLane, run: SuspectRun): Promise<void> => {
  const { db, gate, outcomes, job } = lane;
  const left = await outcomes.find(run.id, run.run_id);
  const outcome = left ?? (await endOf(lane, run));
  noteReconciled(job.type, 'dead_worker');
  const ref = { id: run.id, projectId: run.project_id };
  if (outcome !== null) {
    await record(lane, run, outcome);
    return gate.withdraw([ref]);
  }
  const isBack = await restartCrashed(db, { id: run.id, runId: run.run_id, error: crashed });
  // It keeps its place: were that freed first, another would have it, and this one could still begin by the delivery
  // that the dead worker had. Without a place (Redis lost it) the reconciler admits it.
  if (isBack) await gate.renew([ref]);
};

/** Ends or restarts what dead workers ran, and reminds live ones of what they should stop. */
export const reap = async (lane: KeptLane, silence: Silence): Promise<void> => {
  const now = performance.now();
  for (const run of await suspectRuns(lane.db, lane.job.type, silence.alive(now))) {
    if (!lane.holds(run.project_id)) continue;
    if (run.worker_id === null || silence.isDead(run.worker_id, now)) await reapOne(lane, run);
    else if (run.cancelled) await lane.signals.askToCancel(run.id);
  }
};
