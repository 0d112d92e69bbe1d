import type { Queryable } from '#lib/control-db.ts';
import type { Actor } from './actor.ts';

/** An event of an account that is no change of an audited table. */
export type AccountAction =
  | 'sign_in.create'
  | 'sign_in.end'
  | 'user.password'
  | 'user.email'
  | 'user.delete'
  | 'factor.create'
  | 'factor.delete';

export interface AccountEntry {
  readonly actor: Actor;
  readonly action: AccountAction;
  readonly targetId: string;
  /** Details for readers; never a secret. */
  readonly after?: Readonly<Record<string, unknown>>;
}

/** For a member of several organizations the entry goes to their own one and to the oldest. */
const maxOrganizations = 50;

/** Writes an entry into the audit log of each organization that the user is a member of. */
export const noteAccount = async (
  db: Queryable,
  userId: string,
  { actor: { ip, user_agent: userAgent, request_id: requestId, ...actor }, action, targetId, after }: AccountEntry,
): Promise<void> => {
  await db.query(
    `insert into audit_entries (org_id, actor, action, target_type, target_id, after, ip, user_agent, request_id)
     select o.id, $2, $3, split_part($3, '.', 1), $4, $5, $6, $7, $8
     from members m join organizations o on o.id = m.org_id
     where m.user_id = $1 and m.status = 'active' and o.deleted_at is null
     order by o.own_of is not distinct from $1 desc, m.created_at limit ${maxOrganizations}`,
    [userId, JSON.stringify(actor), action, targetId, after ? JSON.stringify(after) : null, ip, userAgent, requestId],
  );
};
