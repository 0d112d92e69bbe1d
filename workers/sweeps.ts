import { DatabaseError } from 'pg';
import { closeLostCalls } from '#domain/ai/usage/call-store.ts';
import { deleteOldCalls, sweepAiUsage } from '#domain/ai/usage/roll-up.ts';

import { sweepFailures } from '#domain/accounts/proof.ts';
import { sweepChallenges } from '#domain/accounts/codes.ts';
import { sweepDeviceRequests } from '#domain/accounts/devices.ts';
import { sweepSignIns } from '#domain/accounts/sign-ins.ts';
import { createLimitsSweep } from '#domain/database/usage.ts';
import { sweepShadows } from '#domain/database-servers/shadow.ts';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import { createAuthDb } from '#domain/end-users/auth-db.ts';
import { sweepFlagSchedules } from '#domain/flags/schedules.ts';
import { sweepProjectSizes } from '#domain/stats/project-sizes.ts';
import { sweepProjectStats } from '#domain/stats/project-stats.ts';
import { sweepFlagStats } from '#domain/flags/usage.ts';
import { sweepEndUsers } from '#domain/end-users/sweep.ts';
import { sweepScheduleRuns } from '#domain/cron/runs.ts';
import { deleteOldEmails } from '#domain/email/email.ts';
import { deleteOldInvocations, deleteOrphanedInvocations } from '#domain/functions/invocations.ts';
import { deleteBeyondQuota, foldStoredChanges } from '#domain/functions/stored.ts';
import { sweepIdempotencyKeys } from '#domain/idempotency/idempotency.ts';
import { deleteOld, expireLate, expireWaiting } from '#domain/jobs/changes.ts';
import { endTeller } from '#domain/jobs/abandon.ts';
import { sweepRates } from '#domain/jobs/flow.ts';
import { sweepSeen } from '#domain/jobs/queue-shards.ts';
import { sweepUniqueKeys } from '#domain/jobs/unique-keys.ts';
import { sweepUsage } from '#domain/jobs/usage.ts';
import { insertJobs, outcomeOf, refOf } from '#domain/jobs/store.ts';
import { dueSweeps, removeFilesOfProjects, removeUnfinishedFiles } from '#domain/storage/sweep.ts';
import { deleteOldLines } from '#domain/logs/project-log.ts';
import { sweepPlatformMail } from '#domain/mail/mail.ts';
import { deleteOldProviderEvents } from '#domain/integrations/store.ts';
import type { Projects } from '#domain/projects/projects.ts';
import { deleteExpiredBranches } from '#domain/projects/store.ts';
import { quotasFrom } from '#domain/projects/plans.ts';
import { noteBacklog } from '#domain/webhooks/metrics.ts';
import {
  backlogOf,
  deleteEmptyEvents,
  deleteEmptyWebhooks,
  deleteOldDeliveries,
  deleteOrphanedDeliveries,
  wakeForgottenThrottles,
} from '#domain/webhooks/sweep.ts';
import { removeLostListeners } from '#domain/webhooks/listeners.ts';
import type { Config } from '#lib/config.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { actingAs } from '#domain/audit/actor.ts';
import { sweepOrganizations } from '#domain/teams/store.ts';
import type { Log } from '#lib/log.ts';
import type { StorageDriver } from '#lib/object-store/object-store.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { Gate } from '#queues/gate/types.ts';
import { jobs } from '#queues/registry.ts';
import { storageSweep } from '#queues/storage-sweep.ts';
import { noteFinished } from '#queues/metrics.ts';
import type { Outcomes } from '#queues/replies.ts';

export interface SweepDeps {
  readonly config: Config;
  readonly db: ControlDb;
  readonly gate: Gate;
  readonly outcomes: Outcomes;
  readonly projects: Pick<Projects, 'purge' | 'retireLeftOvers' | 'tenantDb'>;
  readonly servers: Pick<DatabaseServers, 'admin' | 'connectTo'>;
  readonly log: Log;
  /** The files of all projects. */
  readonly bytes: StorageDriver;
}

const sweepEveryMs = 60_000;
/** In between, a project goes beyond its quota by what it can store in that time. */
const storedEveryMs = 10_000;
const maxDeleted = 5000;
const maxExpired = 500;
const maxExpiredBranches = 50;
const maxLostListeners = 500;
/** A job can hold 6 MB, which are 3000 rows beside its own. */
const firstStep = 200;
/** A statement may take 14 s. */
const quickMs = 1000;
const maxSweepMs = 45_000;
const jobTypes = jobs.map((job) => job.type);

const isTimeout = (error: unknown): boolean => error instanceof DatabaseError && error.code === '57014';

/**
 * A sweep in small steps, so that no statement holds many rows for long: of 200 rows first, of more while they go
 * quickly, of half as many when one took too long. That is remembered from sweep to sweep.
 * @param step deals with that many rows at most, answers how many there were
 */
export const inSteps = (
  step: (max: number) => Promise<number>,
  maxInStep: number = maxDeleted,
  clock: { readonly now: () => number } = performance,
): (() => Promise<void>) => {
  let max = firstStep;
  const next = async (): Promise<boolean> => {
    const began = clock.now();
    try {
      const dealtWith = await step(max);
      if (dealtWith < max) return false;
      if (clock.now() - began < quickMs) max = Math.min(max * 2, maxInStep);
      return true;
    } catch (error) {
      if (!isTimeout(error) || max === 1) throw error;
      max = Math.ceil(Math.min(max, firstStep) / 2);
      return true;
    }
  };
  return async () => {
    const until = clock.now() + maxSweepMs;
    let isMore = true;
    while (isMore && clock.now() < until) isMore = await next();
  };
};

/** Ends what waited too long; answers how many there were. */
export const expireJobs = async (
  { db, gate, outcomes, config, log }: Omit<SweepDeps, 'servers' | 'projects' | 'bytes'>,
  types: readonly string[] = jobTypes,
  max: number = firstStep,
): Promise<number> => {
  const days = config.PLINTH_JOB_WAIT_DAYS;
  const expired = [...(await expireWaiting(db, { types, days, max })), ...(await expireLate(db, max))];
  await Promise.all(
    expired.map(async (row) => {
      const outcome = outcomeOf(row);
      noteFinished(row.type, row.status);
      await gate
        .withdraw(refOf(row))
        .catch((error: unknown) =>
          log.debug(
            { err: error },
            'the jobs of a deleted project could not be removed from the gate; trying again later',
          ),
        );
      if (outcome) await outcomes.notify(row.id, outcome, row.reply_to).catch(() => undefined);
    }),
  );
  return expired.length;
};

const deleteOldJobs = ({ db, config }: SweepDeps, max: number): Promise<number> =>
  deleteOld(db, {
    succeededHours: config.PLINTH_KEEP_SUCCEEDED_HOURS,
    failedDays: config.PLINTH_KEEP_FAILED_DAYS,
    max,
  });

const storedQuotas = ({ config }: SweepDeps) => {
  const { free, pro, enterprise } = quotasFrom(config);
  return { free: free.storedBytes, pro: pro.storedBytes, enterprise: enterprise.storedBytes };
};

const deliverySweeps = ({ db, config }: SweepDeps): Record<string, () => Promise<unknown>> => {
  const days = { delivered: config.PLINTH_KEEP_DELIVERED_DAYS, undelivered: config.PLINTH_KEEP_UNDELIVERED_DAYS };
  return {
    'old deliveries': inSteps((max) => deleteOldDeliveries(db, days, max)),
    'deliveries of deleted webhooks': inSteps((max) => deleteOrphanedDeliveries(db, max)),
    'deleted webhooks': inSteps((max) => deleteEmptyWebhooks(db, max)),
    'events without deliveries': inSteps((max) => deleteEmptyEvents(db, days, max)),
    'listeners whose process died': () =>
      db.transaction((tx) => removeLostListeners(tx, maxLostListeners), actingAs({ type: 'system' }, 'webhook.delete')),
    'forgotten webhooks': () => wakeForgottenThrottles(db),
    'what waits for webhooks': async () => noteBacklog(await backlogOf(db)),
  };
};

/** A sweep of files is a job, which any worker of the pool may run; a lost one is made again tomorrow. */
const startFileSweeps = async ({ db, gate, log }: SweepDeps): Promise<void> => {
  const { type, maxAttempts } = storageSweep;
  const due = await dueSweeps(db);
  if (due.length === 0) return;
  const rows = due.map(({ jobId: id, projectId }) => ({
    id,
    projectId,
    type,
    data: '{}',
    maxAttempts,
    requestId: id,
  }));
  await insertJobs(db, rows);
  for (const { id, projectId } of rows) {
    await gate
      .admit({ id, type, projectId }, false)
      .catch((error: unknown) => log.debug({ err: error }, 'a sweep of files waits for the reconciler'));
  }
};

const fileSweepsOf = (deps: SweepDeps): Record<string, () => Promise<unknown>> => ({
  'files of projects': () => startFileSweeps(deps),
  'files of deleted projects': () => removeFilesOfProjects(deps.db, deps.bytes),
  'uploads that broke off': () => removeUnfinishedFiles(deps.bytes),
});

const storedSweepsOf = (deps: SweepDeps): Record<string, () => Promise<unknown>> => ({
  'changes of what projects store': inSteps((max) => foldStoredChanges(deps.db, max)),
  'what projects store beyond their quotas': inSteps((max) => deleteBeyondQuota(deps.db, storedQuotas(deps), max)),
});

const sweepsOf = (deps: SweepDeps): Record<string, () => Promise<unknown>> => ({
  'jobs that waited too long': inSteps((max) => expireJobs(deps, jobTypes, max), maxExpired),
  'old jobs': inSteps((max) => deleteOldJobs(deps, max)),
  'old runs of functions': inSteps((max) =>
    deleteOldInvocations(deps.db, deps.config.PLINTH_KEEP_INVOCATION_DAYS, max),
  ),
  'runs of deleted functions': inSteps((max) => deleteOrphanedInvocations(deps.db, max)),
  'old lines of projects’ logs': inSteps((max) => deleteOldLines(deps.db, max)),
  'old mails of projects': inSteps((max) => deleteOldEmails(deps.db, max)),
  ...deliverySweeps(deps),
  'events of payment providers': inSteps((max) => deleteOldProviderEvents(deps.db, max)),
  'unique keys of jobs': inSteps((max) => sweepUniqueKeys(deps.db, max)),
  'rates of functions': inSteps((max) => sweepRates(deps.db, max)),
  'counts of past months': () => sweepUsage(deps.db),
  'runs of schedules': () => sweepScheduleRuns(deps.db),
  'mails of the platform': () => sweepPlatformMail(deps.db),
  'workers that were seen': () => sweepSeen(deps.db),
  'sign-ins': () => sweepSignIns(deps.db),
  'device-requests': () => sweepDeviceRequests(deps.db),
  'sign-ins that wait for a factor': () => sweepChallenges(deps.db),
  'failed sign-ins': () => sweepFailures(deps.db),
  'sign-ins of projects’ users': () =>
    sweepEndUsers({ db: deps.db, authDb: createAuthDb(deps.projects.tenantDb), log: deps.log }),
  'counts of evaluated flags': () => sweepFlagStats(deps.db),
  'counts of requests': () => sweepProjectStats(deps.db),
  'sizes of databases': () => sweepProjectSizes(deps.db),
  'scheduled changes of flags': () => sweepFlagSchedules(deps.db),
  'idempotency keys': () => sweepIdempotencyKeys(deps.db),
  'calls of models that nobody ends': inSteps((max) => closeLostCalls(deps.db, max)),
  'sums of calls of models': () => sweepAiUsage(deps.db),
  'old calls of models': inSteps((max) => deleteOldCalls(deps.db, max)),
  'limits of projects': createLimitsSweep(deps),
  'throw-away databases': () => sweepShadows(deps.db, deps.servers),
  ...fileSweepsOf(deps),
  'expired branches': () =>
    deps.db.transaction(
      (tx) => deleteExpiredBranches(tx, maxExpiredBranches),
      actingAs({ type: 'system' }, 'project.expire'),
    ),
  'half-deleted projects': async () => {
    const { gate, outcomes } = deps;
    const abandonment = { maxMs: maxSweepMs, dropBacklog: gate.drop, onEnded: endTeller(outcomes) };
    const retired = await deps.projects.retireLeftOvers(abandonment);
    for (const projectId of retired) await deps.gate.rulesChanged({ projectId });
  },
  'deleted projects': async () => {
    const purged = await deps.projects.purge(deps.config.PLINTH_DELETED_PROJECT_DAYS);
    if (purged > 0) deps.log.info({ projects: purged }, 'dropped the databases of deleted projects');
  },
  'deleted organizations': () =>
    deps.db.transaction(sweepOrganizations, actingAs({ type: 'system' }, 'organization.purge')),
});

/** A sweep that fails holds up none of the others; the next round tries it again. */
const startRounds = (log: Log, sweeps: Record<string, () => Promise<unknown>>, everyMs: number): Poller => {
  const round = async (): Promise<void> => {
    for (const [what, sweep] of Object.entries(sweeps)) {
      await sweep().catch((error: unknown) => log.warn({ err: error }, `sweeping ${what} failed`));
    }
  };
  const onFailure = (error: unknown): void => log.warn({ err: error }, 'sweeping failed');
  return startPoller(round, { everyMs, firstInMs: everyMs, onFailure });
};

/**
 * Every system worker sweeps what projects store every 10 s, all else every minute; each step can run beside itself.
 */
export const startSweeps = (deps: SweepDeps): Pick<Poller, 'stop'> => {
  const pollers = [
    startRounds(deps.log, storedSweepsOf(deps), storedEveryMs),
    startRounds(deps.log, sweepsOf(deps), sweepEveryMs),
  ];
  return {
    stop: async () => {
      await Promise.all(pollers.map((poller) => poller.stop()));
    },
  };
};
