import { setTimeout as pause } from 'node:timers/promises';
import { cancelIfAbandoned } from '#domain/jobs/abandon.ts';
import { type JobRow, type StartedJob, outcomeOf } from '#domain/jobs/store.ts';
import { withLogContext } from '#lib/context.ts';
import { maybeOne } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { traced } from '#lib/tracing.ts';
import type { Delivery } from '#queues/consumer.ts';
import type { JobError, JobOutcome, JobRef } from '#queues/define.ts';
import { noteFinished, noteRetried, noteRun, noteWait } from '#queues/metrics.ts';
import { type Ran, backoff, runOnce } from './run-once.ts';
import { park } from './park.ts';
import type { RunJobDeps, Work } from './work.ts';

const maxMessageLength = 4096;
const maxCheckAgeMs = 500;

/** The message of user code may contain any characters and have any length; a text column cannot hold that. */
const recordable = ({ code, message }: JobError): JobError => ({
  code,
  message: message.slice(0, maxMessageLength).replaceAll('\0', '\uFFFD').toWellFormed(),
});

const notifyIntervalMs = 1000;
const maxNotifyTries = 60;

/** A caller that could not be notified at once is notified while it may still wait; after that it reads the row. */
const notifyLater = async ({ deps, started }: Work, outcome: JobOutcome): Promise<void> => {
  for (let tries = 0; tries < maxNotifyTries && started.reply_to !== null; tries += 1) {
    await pause(notifyIntervalMs, undefined, { ref: false });
    const isNotified = await deps.outcomes.notify(started.id, outcome, started.reply_to).then(
      () => true,
      () => false,
    );
    if (isNotified) return;
  }
};

/**
 * Redis first, where the waiting caller is notified; when it is away, Postgres first: one of them always knows the end.
 */
const settle = async (work: Work, outcome: JobOutcome): Promise<void> => {
  const { deps, runId, started, job } = work;
  const finishedAt = new Date();
  const end = { jobId: started.id, runId, finishedAt, outcome, replyTo: started.reply_to };
  const isNotified = await deps.outcomes.publish(end).then(
    () => true,
    () => false,
  );
  await deps.recorder.end({ id: started.id, runId, finishedAt, outcome });
  noteFinished(job.type, outcome.status);
  deps.onEnded?.(job.type);
  deps.signals.announce(started.id, { event: 'status', status: outcome.status, attempt: started.attempt });
  // Not waited for: a Redis that is full would keep this worker's slots.
  if (!isNotified) void notifyLater(work, outcome);
  deps.outcomes
    .forget(started.id)
    .catch((error: unknown) => deps.log.debug({ err: error }, 'an outcome stays until it expires'));
};

/** The place at the gate is free as soon as the run is over. What Redis misses now the reconciler frees. */
const leaveGate = (deps: RunJobDeps, delivery: Delivery): Promise<void> =>
  deps
    .finish(delivery.shard, delivery.lease)
    .catch((error: unknown) => deps.log.debug({ err: error }, 'a lease stays until the reconciler finds it'));

const retry = async (work: Work, error: JobError, left: Promise<void>): Promise<void> => {
  const { deps, started, runId, job } = work;
  const delayMs = backoff(started.attempt, job.retryFromMs);
  if (!(await deps.recorder.retry({ id: started.id, runId, error }, delayMs))) return;
  // While it has its place, the gate would not take it again.
  await left;
  noteRetried(job.type);
  deps.signals.announce(started.id, { event: 'status', status: 'queued', attempt: started.attempt });
  deps.retryIn(job.type, delayMs);
};

/** When Redis is away the reconciler brings it to the gate. */
const bringBack = (deps: RunJobDeps, shard: string, job: Pick<JobRef, 'id' | 'projectId'>): Promise<void> =>
  deps
    .readmit(shard, job)
    .catch((error: unknown) => deps.log.debug({ err: error }, 'a job that was handed back is admitted later'));

/** Another worker may have it at once. */
const handBack = async ({ deps, delivery, started, runId }: Work, left: Promise<void>): Promise<void> => {
  if (!(await deps.recorder.handBack({ id: started.id, runId }))) return;
  await left;
  await bringBack(deps, delivery.shard, { id: started.id, projectId: delivery.projectId });
};

const conclude = (work: Work, ran: Ran, left: Promise<void>): Promise<void> => {
  if (ran.kind === 'back') return handBack(work, left);
  if (ran.kind === 'parked') return park(work, ran.parked, left);
  if (ran.kind === 'again') return retry(work, recordable(ran.error), left);
  const { outcome } = ran;
  return settle(work, { ...outcome, error: outcome.error && recordable(outcome.error) });
};

const run = async (work: Work): Promise<void> => {
  const { deps, started, job, delivery } = work;
  noteWait(job.type, started.waited_ms);
  const began = performance.now();
  const tracked = deps.running.add({ id: started.id, type: job.type, projectId: delivery.projectId });
  try {
    deps.signals.announce(started.id, { event: 'status', status: 'running', attempt: started.attempt });
    if (started.cancel_requested_at !== null) deps.running.stop(started.id, 'cancelled');
    const ran = await runOnce(work, tracked);
    noteRun(job.type, performance.now() - began);
    // After the first step of `conclude`: the caller is notified before the gate.
    const left = Promise.resolve().then(() => leaveGate(deps, delivery));
    await Promise.all([left, conclude(work, ran, left)]);
  } finally {
    tracked.remove();
  }
};

/**
 * Starts the job by its row and checks its lease at the same time: a delivery under a lease that the job no longer
 * holds may not run, its place belongs to another job by now. Such deliveries come after a crash (BullMQ returns the
 * jobs that the dead worker had taken) and when a cancelled job is run again. They are rare, so the row is put back
 * then.
 */
const begin = async (deps: RunJobDeps, delivery: Delivery, runId: string): Promise<StartedJob | null> => {
  const { shard, lease, epoch } = delivery;
  const { id } = lease;
  const checkedAt = performance.now();
  const checkLease = (): Promise<boolean> => deps.isHeld(shard, lease).catch(() => false);
  const [started, wasHeld] = await Promise.all([
    deps.recorder.begin({ id, runId, workerId: deps.workerId, shard, epoch }),
    checkLease(),
  ]);
  // A check from before a long outage of Postgres says little after it.
  const isHeld = wasHeld && performance.now() - checkedAt > maxCheckAgeMs ? await checkLease() : wasHeld;
  if (started === null || isHeld) return started;
  await deps.recorder.handBack({ id, runId });
  return null;
};

type Standing = Pick<JobRow, 'status' | 'result' | 'error_code' | 'error_message'> & {
  readonly reply_to: string | null;
  readonly due: boolean;
};

const standingOf = (deps: RunJobDeps, id: string): Promise<Standing | undefined> =>
  maybeOne(
    deps.db.query<Standing>(
      `select status, result, error_code, error_message, reply_to, next_run_at is null as due from jobs where id = $1`,
      [id],
    ),
  );

/**
 * A job that may not start needs no place at the gate, unless it runs; one that waits is queued again. The caller of a
 * job that ended before it started (its project was deleted) may not have been notified.
 */
const dropDelivery = async (deps: RunJobDeps, delivery: Delivery): Promise<void> => {
  const { shard, lease, projectId } = delivery;
  const known = await standingOf(deps, lease.id).catch(() => null);
  if (known === null || known?.status === 'running') return;
  const abandoned = known?.status === 'queued' && (await cancelIfAbandoned(deps.db, lease.id).catch(() => undefined));
  const row = abandoned ? { ...abandoned, due: false } : known;
  await leaveGate(deps, delivery);
  if (row?.status === 'queued' && row.due) await bringBack(deps, shard, { id: lease.id, projectId });
  const outcome = row && outcomeOf(row);
  if (outcome) await deps.outcomes.notify(lease.id, outcome, row.reply_to).catch(() => undefined);
};

/**
 * Takes one job from BullMQ to its record. Its row decides whether it starts: a job that was cancelled, has ended, runs
 * elsewhere or was handed over before Redis lost its memory does not. Its outcome is stored in Redis and its caller
 * notified (one step), then recorded in Postgres, and only then BullMQ forgets it. A worker that dies in between leaves
 * a job that the reaper finishes. Never throws for a known type: BullMQ drops jobs that it takes for failed.
 */
export const runJob = async (deps: RunJobDeps, delivery: Delivery): Promise<void> => {
  const job = deps.jobs.find((one) => one.type === delivery.type);
  const processor = deps.processors[delivery.type];
  if (job === undefined || processor === undefined) throw new Error(`no processor for ${delivery.type}`);
  const { projectId } = delivery;
  const runId = newId();
  const runAhead = processor.ahead?.(projectId) ?? processor.run;
  const started = await begin(deps, delivery, runId);
  if (started === null) return dropDelivery(deps, delivery);
  const context = { requestId: started.request_id, projectId, jobId: started.id };
  const attributes = {
    'plinth.job.type': job.type,
    'plinth.job.id': started.id,
    'plinth.job.attempt': started.attempt,
  };
  await withLogContext(context, () =>
    traced('job run', attributes, started.traceparent, () =>
      run({ deps, job, processor, run: runAhead, delivery, runId, started }),
    ),
  );
};
