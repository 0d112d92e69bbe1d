import { setTimeout as pause } from 'node:timers/promises';
import { systemActor } from '#domain/audit/actor.ts';
import type { Abandonment, DeletedProjectJobs } from '#domain/projects/projects.ts';
import { type ControlDb, type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { projectProvision } from '#queues/project-provision.ts';
import type { Outcomes } from '#queues/replies.ts';
import type { Changed } from './changes.ts';
import { jobColumns, jobColumnsOf, outcomeOf } from './store.ts';

/**
 * Cancelling 500 jobs takes about 100 ms, their records included; 10,000 in one statement exceeded the statement
 * time-out of 14 s on a busy machine.
 */
const batchSize = 500;
const beginning = '00000000-0000-0000-0000-000000000000';

/** SQL: whether the project of `jobs` is deleted and the job must not run. A provisioning cleans up after itself. */
export const isAbandoned = `(jobs.type <> '${projectProvision.type}'
  and (select p.deleted_at is not null from projects p where p.id = jobs.project_id) is true)`;

/**
 * Notifies waiting callers of the ends of their jobs; a caller that cannot be notified reads the row when its wait is
 * over.
 */
export const endTeller =
  (outcomes: Pick<Outcomes, 'notify'>): Abandonment['onEnded'] =>
  async (ended) => {
    const notified = ended.map(async (row) => {
      const outcome = outcomeOf(row);
      if (outcome) await outcomes.notify(row.id, outcome, row.reply_to);
    });
    await Promise.allSettled(notified);
  };

/** One process at a time works on the jobs of a project: the lock is released with each batch's transaction. */
const isAlone = async (db: Queryable, projectId: string): Promise<boolean> =>
  (
    await one(
      db.query<{ alone: boolean }>(
        `select pg_try_advisory_xact_lock(hashtextextended('jobs of deleted project ' || $1, 0)) as alone`,
        [projectId],
      ),
    )
  ).alone;

/** Asks workers to stop what runs, and lifts the pauses and limits that would hold back what the gate still has. */
const stopRunning = (db: ControlDb, projectId: string): Promise<void> =>
  db.transaction(async (tx) => {
    await tx.query(
      `update jobs set cancel_requested_at = coalesce(cancel_requested_at, now())
       where project_id = $1 and status = 'running' and type <> $2`,
      [projectId, projectProvision.type],
    );
    await tx.query('delete from job_pauses where project_id = $1', [projectId]);
    await tx.query('delete from job_limits where project_id = $1', [projectId]);
  }, systemActor);

const cancelled = `status = 'cancelled', finished_at = now(), next_run_at = null,
  error_code = 'cancelled', error_message = 'The project was deleted.'`;

/** Locked jobs are skipped: they are being started, which `start_jobs` refuses. */
const cancelBatch = (db: ControlDb, projectId: string, after: string): Promise<Changed[] | null> =>
  db.transaction(async (tx) => {
    if (!(await isAlone(tx, projectId))) return null;
    return tx.query<Changed>(
      `with batch as materialized (
         select id from jobs where project_id = $1 and status in ('queued', 'waiting') and type <> $2 and id > $3
         order by id limit $4 for no key update skip locked
       ), ended as (
         update jobs set ${cancelled} from batch where jobs.id = batch.id returning jobs.*
       )
       select ${jobColumnsOf('ended')}, reply_to from ended order by id`,
      [projectId, projectProvision.type, after, batchSize],
    );
  }, systemActor);

/**
 * Cancels the jobs of a deleted project in batches, each committed by itself, and rests as long as each batch took: the
 * control database belongs to everybody. Can be repeated and continued by another process.
 * @returns whether nothing waits any more; false when the time was over or another process is at it
 */
export const abandonJobsOf = async (
  db: ControlDb,
  projectId: string,
  { maxMs, onEnded }: Pick<Abandonment, 'maxMs' | 'onEnded'>,
): Promise<boolean> => {
  const until = performance.now() + maxMs;
  await stopRunning(db, projectId);
  for (let after = beginning; performance.now() < until;) {
    const began = performance.now();
    const batch = await cancelBatch(db, projectId, after);
    if (batch === null) return false;
    await onEnded(batch.filter(({ reply_to: replyTo }) => replyTo !== null));
    if (batch.length < batchSize) return true;
    after = batch.at(-1)?.id ?? after;
    await pause(performance.now() - began);
  }
  return false;
};

/**
 * Ends one waiting job whose project is deleted: it was accepted while the project went. Undefined for any other job.
 */
export const cancelIfAbandoned = (db: Queryable, id: string): Promise<Changed | undefined> =>
  maybeOne(
    db.query<Changed>(
      `update jobs set ${cancelled} where id = $1 and status in ('queued', 'waiting') and ${isAbandoned}
       returning ${jobColumns}, reply_to`,
      [id],
    ),
  );

const deleteBatch = (db: ControlDb, projectId: string): Promise<number | null> =>
  db.transaction(async (tx) => {
    if (!(await isAlone(tx, projectId))) return null;
    const gone = await tx.query(
      'delete from jobs where id in (select id from jobs where project_id = $1 limit $2) returning id',
      [projectId, batchSize],
    );
    return gone.length;
  }, systemActor);

/**
 * Deletes the jobs of a project whose database is dropped, in committed batches.
 * @returns whether none is left; false when the time was over or another process is at it
 */
export const deleteJobsOf = async (db: ControlDb, projectId: string, maxMs: number): Promise<boolean> => {
  const until = performance.now() + maxMs;
  while (performance.now() < until) {
    const began = performance.now();
    const gone = await deleteBatch(db, projectId);
    if (gone === null) return false;
    if (gone < batchSize) return true;
    await pause(performance.now() - began);
  }
  return false;
};

/** The jobs as the deletion of projects needs them, see `createProjects`. */
export const deletedProjectJobs = (db: ControlDb): DeletedProjectJobs => ({
  abandon: (projectId, how) => abandonJobsOf(db, projectId, how),
  remove: (projectId, maxMs) => deleteJobsOf(db, projectId, maxMs),
});
