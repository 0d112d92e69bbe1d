import { systemActor } from '#domain/audit/actor.ts';
import { findProject } from '#domain/projects/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Gate } from '#queues/gate/types.ts';
import { type EnqueueLimits, type EnqueueOrder, admitEnqueued, enqueue } from './enqueue.ts';

export interface EnqueueOnceDeps {
  readonly db: ControlDb;
  readonly gate: Pick<Gate, 'admit'>;
  readonly log: Log;
  readonly limits: EnqueueLimits;
}

/** Jobs whose ids are theirs from the beginning. */
export type RepeatableOrder = EnqueueOrder & {
  readonly jobs: readonly (EnqueueOrder['jobs'][number] & { readonly id: string })[];
};

/**
 * Enqueues jobs once, however often it is repeated.
 * @throws {ServiceError} as `enqueue`
 */
export const enqueueOnce = async (deps: EnqueueOnceDeps, projectId: string, order: RepeatableOrder): Promise<void> => {
  const admissions = await deps.db.transaction(async (tx) => {
    const ids = order.jobs.map(({ id }) => id);
    if ((await tx.query('select from jobs where id = any ($1::uuid[]) limit 1', [ids])).length > 0) return null;
    const project = await findProject(tx, projectId);
    if (project === undefined || project.deleted_at !== null) throw notFound('project');
    return (await enqueue(tx, project, order, deps.limits)).admissions;
  }, systemActor);
  if (admissions !== null) await admitEnqueued(deps, admissions);
};
