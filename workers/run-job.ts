import { setTimeout as pause } from 'node:timers/promises';
import { cancelIfAbandoned } from '#domain/jobs/abandon.ts';
import { type Changed, expireIfLate } from '#domain/jobs/changes.ts';
import { type StartedJob, outcomeOf, standingOf } from '#domain/jobs/store.ts';
import { withLogContext } from '#lib/context.ts';
import { newId } from '#lib/ids.ts';
import { traced } from '#lib/tracing.ts';
import type { Delivery } from '#queues/consumer.ts';
import type { JobError, JobOutcome, JobRef } from '#queues/define.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { isRetried, pauseAfter } from '#queues/retry-policy.ts';
import { noteFinished, noteRetried, noteRun, noteWait } from '#queues/metrics.ts';
import { type Ran, backoff, runOnce } from './run-once.ts';
import { fallAsleep, park } from './park.ts';
import type { RunEnd } from '#queues/replies.ts';
import type { JobStatusEvent, Signals } from '#queues/signals.ts';
import type { RunJobDeps, RunningStatus, Work } from './work.ts';

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

/** The place at the gate is free as soon as the run is over. What Redis misses now the reconciler frees. */
const leaveGate = (deps: RunJobDeps, delivery: Delivery): Promise<void> =>
  deps
    .finish(delivery.shard, delivery.lease)
    .catch((error: unknown) => deps.log.debug({ err: error }, 'a lease stays until the reconciler finds it'));

/** In one step where the consumer can do that; else the caller is notified before the place at the gate is free. */
const publishEnd = async (work: Work, end: RunEnd): Promise<void> => {
  const { deps, delivery, started } = work;
  if (delivery.complete !== undefined) return delivery.complete(end);
  const isPublished = deps.outcomes.publish(end);
  const left = Promise.resolve().then(() => leaveGate(deps, delivery));
  for (const status of end.statuses ?? []) deps.signals.announce(started.id, status);
  await Promise.all([isPublished, left]);
};

/**
 * Redis first, where the waiting caller is notified; when it is away, Postgres first: one of them always knows the end.
 */
const settle = async (work: Work, outcome: JobOutcome): Promise<void> => {
  const { deps, runId, started, job, delivery } = work;
  const finishedAt = new Date();
  const ending = { event: 'status', status: outcome.status, attempt: started.attempt } as const;
  // Lines of its log that are on their way to listeners come before its end.
  const isSeparate = deps.signals.isSending(started.id);
  let isRecorded = false;
  const isPublished = await publishEnd(work, {
    jobId: started.id,
    runId,
    finishedAt,
    outcome,
    replyTo: started.reply_to,
    statuses: isSeparate ? [] : [...work.status.take(), ending],
    isRecorded: () => isRecorded,
  }).then(
    () => true,
    () => false,
  );
  const { hasEvents } = await deps.recorder.end({ id: started.id, runId, finishedAt, outcome });
  isRecorded = true;
  if (isSeparate) deps.signals.announce(started.id, ending);
  noteFinished(job.type, outcome.status);
  if (hasEvents) deps.onEvents?.();
  // Not waited for: a Redis that is full would keep this worker's slots.
  if (!isPublished && delivery.complete === undefined) void notifyLater(work, outcome);
  deps.outcomes
    .forget(started.id)
    .catch((error: unknown) => deps.log.debug({ err: error }, 'an outcome stays until it expires'));
};

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
const bringBack = (
  deps: RunJobDeps,
  shard: string,
  job: Pick<JobRef, 'id' | 'projectId' | 'priority' | 'awaited'>,
): Promise<void> =>
  deps
    .readmit(shard, job)
    .catch((error: unknown) => deps.log.debug({ err: error }, 'a job that was handed back is admitted later'));

/** Another worker may have it at once. */
const handBack = async ({ deps, delivery, started, runId }: Work, left: Promise<void>): Promise<void> => {
  if (!(await deps.recorder.handBack({ id: started.id, runId }))) return;
  await left;
  const { id, priority, reply_to: replyTo } = started;
  await bringBack(deps, delivery.shard, { id, projectId: delivery.projectId, priority, awaited: replyTo !== null });
};

/** Another attempt after one that user code failed, as the job's own policy has it. */
const retryByPolicy = async (work: Work, { error, report }: JobOutcome, delayMs: number): Promise<void> => {
  const { deps, started, runId, job } = work;
  const left = leaveGate(deps, work.delivery);
  const broken = {
    id: started.id,
    runId,
    error: error ?? { code: 'crashed', message: '' },
    report: report ?? 'crashed',
  };
  const isBack = await deps.recorder.retryByPolicy(broken, delayMs);
  await left;
  if (!isBack) return;
  noteRetried(job.type);
  deps.signals.announce(started.id, { event: 'status', status: 'queued', attempt: started.attempt });
  deps.retryIn(job.type, delayMs);
};

/** The end of a run as policies name it: what else goes wrong with an HTTP call or a statement is an error. */
const endOf = ({ job }: Work, { error }: JobOutcome): string => {
  const code = error?.code ?? '';
  return job.type === functionInvoke.type || code === 'timeout' || code === 'crashed' ? code : 'error';
};

/** The end of a run is the end of its job, unless the job's policy has another attempt for it. */
const end = async (work: Work, outcome: JobOutcome): Promise<void> => {
  const { retry: policy, attempt } = work.started;
  const hasFailed = outcome.status === 'failed' || outcome.status === 'dead';
  if (policy === null || !hasFailed) return settle(work, outcome);
  if (outcome.isFinal !== true && isRetried(policy, attempt, endOf(work, outcome))) {
    return retryByPolicy(work, outcome, pauseAfter(policy, attempt));
  }
  return settle(work, { ...outcome, status: 'dead' });
};

const conclude = async (work: Work, ran: Ran): Promise<void> => {
  if (ran.kind === 'ended') {
    const { outcome } = ran;
    return end(work, { ...outcome, error: outcome.error && recordable(outcome.error) });
  }
  const left = leaveGate(work.deps, work.delivery);
  if (ran.kind === 'back') await handBack(work, left);
  else if (ran.kind === 'parked') await park(work, ran.parked, left);
  else if (ran.kind === 'asleep') await fallAsleep(work, ran.asleep, left);
  else await retry(work, recordable(ran.error), left);
  await left;
};

/** Most runs are over within that time: then `running` goes with their end, at no cost of its own. */
const announceRunningAfterMs = 20;

/** Announces that the job runs: soon, before anything else that is said of it, or with its end. */
const announceRunning = ({ signals }: RunJobDeps, { id, attempt }: StartedJob): RunningStatus => {
  const event = { event: 'status', status: 'running', attempt } as const;
  let isPending = true;
  const take = (): readonly JobStatusEvent[] => {
    const events = isPending ? [event] : [];
    isPending = false;
    clearTimeout(timer);
    return events;
  };
  const announce = (): void => {
    for (const each of take()) signals.announce(id, each);
  };
  const timer = setTimeout(announce, announceRunningAfterMs).unref();
  return { take, announce };
};

/** The next job of the key gets the place; what fails here the leader of the shard does. */
const freePlace = ({ deps, delivery, job }: Work, key: string): void => {
  const keys = { type: job.type, projectId: delivery.projectId, keys: [key] };
  deps
    .admitKeyed(delivery.shard, keys)
    .catch((error: unknown) => deps.log.debug({ err: error }, 'the next job of a concurrency key is admitted later'));
};

const run = async (startedWork: Omit<Work, 'status'>): Promise<void> => {
  const { deps, started, job, delivery } = startedWork;
  const status = announceRunning(deps, started);
  const signals: Signals = {
    ...deps.signals,
    announce: (jobId, event, source) => {
      status.announce();
      deps.signals.announce(jobId, event, source);
    },
  };
  const work: Work = { ...startedWork, status, deps: { ...deps, signals } };
  noteWait(job.type, started.waited_ms);
  const began = performance.now();
  const tracked = deps.running.add({ id: started.id, type: job.type, projectId: delivery.projectId });
  try {
    if (started.cancel_requested_at !== null) deps.running.stop(started.id, 'cancelled');
    const ran = await runOnce(work, tracked);
    noteRun(job.type, performance.now() - began);
    await conclude(work, ran);
  } finally {
    status.announce();
    tracked.remove();
    if (started.concurrency_key !== null) freePlace(work, started.concurrency_key);
  }
};

/**
 * Starts the job by its row, unless its lease is not its own any more: such a delivery may not run, its place belongs
 * to another job by now. They come after a crash (BullMQ returns the jobs that the dead worker had taken) and when a
 * cancelled job is run again. The lease was checked when the job was taken; a consumer that cannot do that has it
 * checked here, beside the start, and the row is put back when it was not held. A check from before a long outage of
 * Postgres says little after it.
 */
const begin = async (deps: RunJobDeps, delivery: Delivery, runId: string): Promise<StartedJob | null> => {
  const { shard, lease, epoch } = delivery;
  const { id } = lease;
  if (delivery.isHeld === false) return null;
  const checkedAt = performance.now();
  const checkLease = (): Promise<boolean> => deps.isHeld(shard, lease).catch(() => false);
  const [started, wasHeld] = await Promise.all([
    deps.recorder.begin({ id, runId, workerId: deps.workerId, shard, epoch }),
    delivery.isHeld ?? checkLease(),
  ]);
  const isHeld = wasHeld && performance.now() - checkedAt > maxCheckAgeMs ? await checkLease() : wasHeld;
  if (started === null || isHeld) return started;
  await deps.recorder.handBack({ id, runId });
  return null;
};

/** Ends a job that waits and may not begin any more: its project was deleted, or it is late. */
const endUnstarted = async ({ db }: RunJobDeps, id: string): Promise<Changed | undefined> => {
  const abandoned = await cancelIfAbandoned(db, id).catch(() => undefined);
  return abandoned ?? expireIfLate(db, id).catch(() => undefined);
};

/**
 * A job that may not start needs no place at the gate, unless it runs; one that waits is queued again. The caller of a
 * job that ended before it started (its project was deleted) may not have been notified.
 */
const dropDelivery = async (deps: RunJobDeps, delivery: Delivery): Promise<void> => {
  const { shard, lease, projectId } = delivery;
  const known = await standingOf(deps.db, lease.id).catch(() => null);
  if (known === null || known?.status === 'running') return;
  const ended = known?.status === 'queued' ? await endUnstarted(deps, lease.id) : undefined;
  const row = ended ? { ...ended, due: false } : known;
  await leaveGate(deps, delivery);
  if (row?.status === 'queued' && row.due) {
    const awaited = row.reply_to !== null;
    await bringBack(deps, shard, { id: lease.id, projectId, priority: row.priority, awaited });
  }
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
      run({ deps, job, processor, run: runAhead, delivery, runId, started, continuation: { isPossible: false } }),
    ),
  );
};
