import { sweepSignIns } from '#domain/accounts/sign-ins.ts';
import { sweepScheduleRuns } from '#domain/cron/run-store.ts';
import { deleteOldEvents, deleteOldInvocations, deleteOrphanedInvocations } from '#domain/functions/invocations.ts';
import { sweepIdempotencyKeys } from '#domain/idempotency/store.ts';
import { deleteOld, expireWaiting } from '#domain/jobs/changes.ts';
import { sweepSeen } from '#domain/jobs/lanes.ts';
import { sweepUsage } from '#domain/jobs/usage.ts';
import { outcomeOf, refOf } from '#domain/jobs/store.ts';
import { sweepPlatformMail } from '#domain/mail/platform-mail.ts';
import type { Projects } from '#domain/projects/projects.ts';
import type { Config } from '#lib/config.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { Gate } from '#queues/gate/types.ts';
import { jobs } from '#queues/registry.ts';
import { noteFinished } from '#queues/metrics.ts';
import type { Outcomes } from '#queues/replies.ts';

export interface SweepDeps {
  readonly config: Config;
  readonly db: ControlDb;
  readonly gate: Gate;
  readonly outcomes: Outcomes;
  readonly projects: Pick<Projects, 'purge' | 'retireLeftOvers'>;
  readonly log: Log;
}

const everyMs = 60_000;
const mostDeleted = 5000;
const mostExpired = 500;
const jobTypes = jobs.map((job) => job.type);
const mostRounds = 100;

/** In small steps, so that no statement holds many rows for long. */
const inSteps = async (step: () => Promise<number>, most: number): Promise<void> => {
  for (let round = 0; round < mostRounds; round += 1) if ((await step()) < most) return;
};

/** Ends what waited too long; answers how many there were. */
export const expireJobs = async (
  { db, gate, outcomes, config, log }: SweepDeps,
  types: readonly string[] = jobTypes,
): Promise<number> => {
  const days = config.PLINTH_JOB_WAIT_DAYS;
  const expired = await expireWaiting(db, { types, days, most: mostExpired });
  await Promise.all(
    expired.map(async (row) => {
      const outcome = outcomeOf(row);
      noteFinished(row.type, row.status);
      await gate.withdraw(refOf(row)).catch((error: unknown) => log.debug({ err: error }, 'it leaves the gate later'));
      if (outcome) await outcomes.tell(row.id, outcome, row.reply_to).catch(() => undefined);
    }),
  );
  return expired.length;
};

const deleteOldJobs = ({ db, config }: SweepDeps): Promise<number> =>
  deleteOld(db, {
    succeededHours: config.PLINTH_KEEP_SUCCEEDED_HOURS,
    failedDays: config.PLINTH_KEEP_FAILED_DAYS,
    most: mostDeleted,
  });

const sweepsOf = (deps: SweepDeps): Record<string, () => Promise<unknown>> => ({
  'jobs that waited too long': () => inSteps(() => expireJobs(deps), mostExpired),
  'old jobs': () => inSteps(() => deleteOldJobs(deps), mostDeleted),
  'old runs of functions': () =>
    inSteps(() => deleteOldInvocations(deps.db, deps.config.PLINTH_KEEP_INVOCATION_DAYS, mostDeleted), mostDeleted),
  'runs of deleted functions': () => inSteps(() => deleteOrphanedInvocations(deps.db, mostDeleted), mostDeleted),
  'old events': () => inSteps(() => deleteOldEvents(deps.db, mostDeleted), mostDeleted),
  'counts of past months': () => sweepUsage(deps.db),
  'runs of schedules': () => sweepScheduleRuns(deps.db),
  'mails of the platform': () => sweepPlatformMail(deps.db),
  'workers that were seen': () => sweepSeen(deps.db),
  'sign-ins': () => sweepSignIns(deps.db),
  'idempotency keys': () => sweepIdempotencyKeys(deps.db),
  'half-deleted projects': async () => {
    for (const projectId of await deps.projects.retireLeftOvers()) await deps.gate.rulesChanged({ projectId });
  },
  'deleted projects': async () => {
    const purged = await deps.projects.purge(deps.config.PLINTH_DELETED_PROJECT_DAYS);
    if (purged > 0) deps.log.info({ projects: purged }, 'dropped the databases of deleted projects');
  },
});

/** What is over is put away once a minute by every system worker; each step can run beside itself. */
export const startSweeps = (deps: SweepDeps): { readonly stop: () => Promise<void> } => {
  const sweepAll = async (): Promise<void> => {
    for (const [what, sweep] of Object.entries(sweepsOf(deps))) {
      await sweep().catch((error: unknown) => deps.log.warn({ err: error }, `sweeping ${what} failed`));
    }
  };
  let running = Promise.resolve();
  const timer = setInterval(() => {
    running = running.then(sweepAll);
  }, everyMs).unref();
  return {
    stop: () => {
      clearInterval(timer);
      return running;
    },
  };
};
