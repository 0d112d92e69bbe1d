import type { Projects } from '#domain/projects/projects.ts';
import { sweepIdempotencyKeys } from '#domain/idempotency/store.ts';
import { sweepSignIns } from '#domain/accounts/sign-ins.ts';
import { requeueWaiting } from '#domain/jobs/requeue.ts';
import type { Producer } from '#queues/producer.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';

export interface SweepDeps {
  readonly db: ControlDb;
  readonly producer: Producer;
  readonly projects: Pick<Projects, 'purge' | 'retireLeftOvers'>;
  readonly deletedProjectDays: number;
  readonly log: Log;
}

const everyMs = 60_000;

/** What is over is put away once a minute by every system worker; each step can run beside itself. */
export const startSweeps = ({
  db,
  producer,
  projects,
  deletedProjectDays,
  log,
}: SweepDeps): { readonly stop: () => Promise<void> } => {
  const sweeps: Record<string, () => Promise<unknown>> = {
    'jobs that wait long': () => requeueWaiting(db, producer),
    'sign-ins': () => sweepSignIns(db),
    'idempotency keys': () => sweepIdempotencyKeys(db),
    'half-deleted projects': () => projects.retireLeftOvers(),
    'deleted projects': async () => {
      const purged = await projects.purge(deletedProjectDays);
      if (purged > 0) log.info({ projects: purged }, 'dropped the databases of deleted projects');
    },
  };
  const sweepAll = async (): Promise<void> => {
    for (const [what, sweep] of Object.entries(sweeps)) {
      await sweep().catch((error: unknown) => log.warn({ err: error }, `sweeping ${what} failed`));
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
