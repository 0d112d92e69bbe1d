import { noteAccount } from '#domain/audit/accounts.ts';
import type { Actor } from '#domain/audit/actor.ts';
import { type Queryable, one } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';

/** A sign-in as its user sees it. */
export interface Session {
  readonly id: string;
  /** Through what: `api`. */
  readonly kind: string;
  readonly current: boolean;
  readonly created_at: Date;
  /** When it was started or last renewed: exact to the hour that an access token lasts. */
  readonly last_seen_at: Date;
  readonly ip: string | null;
  readonly user_agent: string | null;
}

const living = `s.user_id = $1 and s.ended_at is null and exists (
  select from sign_in_tokens t where t.sign_in_id = s.id and t.expires_at > now() and t.used_at is null)`;

export interface SessionsOf {
  readonly userId: string;
  /** The caller's own sign-in. */
  readonly signInId: string;
}

/** The user's sign-ins that can still be used, the one used last first. */
export const listSessions = async (
  db: Queryable,
  { userId, signInId }: SessionsOf,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ sessions: Session[]; total: number }> => {
  const sessions = await db.query<Session>(
    `select s.id, s.kind, s.id = $2 as current, s.created_at, coalesce(s.last_seen_at, s.created_at) as last_seen_at,
       s.ip, s.user_agent
     from sign_ins s where ${living} order by last_seen_at desc, s.id desc limit $3 offset $4`,
    [userId, signInId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>(`select count(*) as total from sign_ins s where ${living}`, [userId]),
  );
  return { sessions, total };
};

/**
 * Ends one sign-in of the user: none of its tokens works any more. Needs a transaction.
 * @throws {ServiceError} `not_found`
 */
export const endSession = async (
  db: Queryable,
  { userId, id, actor }: { readonly userId: string; readonly id: string; readonly actor: Actor },
): Promise<void> => {
  const ended = await db.query(
    'update sign_ins set ended_at = now() where id = $1 and user_id = $2 and ended_at is null returning id',
    [id, userId],
  );
  if (ended.length === 0) throw notFound('sign-in');
  await noteAccount(db, userId, { actor, action: 'sign_in.end', targetId: id });
};

/** Ends all sign-ins of the user but the caller's own. */
export const endOtherSessions = async (db: Queryable, { userId, signInId }: SessionsOf): Promise<void> => {
  await db.query('update sign_ins set ended_at = now() where user_id = $1 and id <> $2 and ended_at is null', [
    userId,
    signInId,
  ]);
};
