import type { Queryable } from '#lib/control-db.ts';

/** The actor of a change: written into each audit entry by the triggers on the audited tables. */
export interface Actor {
  /** `key`: a secret key of the project, by its id. */
  readonly type: 'user' | 'operator' | 'system' | 'key';
  readonly id?: string;
  readonly email?: string;
  readonly ip?: string;
  readonly user_agent?: string;
  readonly request_id?: string;
}

/**
 * Transaction settings that the audit triggers read. A change of an audited table without them fails.
 * @param action names the entry when the row operation alone does not say what happened, e.g. `project.delete`
 */
export const actingAs = (actor: Actor, action?: string): Record<string, string> => ({
  'plinth.actor': JSON.stringify(actor),
  ...(action !== undefined && { 'plinth.action': action }),
});

/** The platform itself: provisioning, sweeps. */
export const systemActor = actingAs({ type: 'system' });

/** Names what the following changes of a transaction are, as `action` of `actingAs` does. */
export const nameAction = async (db: Queryable, action: string): Promise<void> => {
  await db.query(`select set_config('plinth.action', $1, true)`, [action]);
};
