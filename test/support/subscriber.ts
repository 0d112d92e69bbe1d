import { systemActor } from '#domain/audit/actor.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';

/**
 * Has a project's events kept, for tests that read them: somebody subscribes to all of them, and is told of none. Which
 * writes to tables leave events is left as it is.
 */
export const keepEventsOf = (db: ControlDb, projectId: string): Promise<void> =>
  db.transaction(async (tx) => {
    await tx.query(
      `insert into webhooks (id, project_id, url, events, secret_sealed, is_active)
       values ($1, $2, 'http://127.0.0.1/', '{*}', '', false)`,
      [newId(), projectId],
    );
    await tx.query('delete from subscriptions_to_set where project_id = $1', [projectId]);
  }, systemActor);
