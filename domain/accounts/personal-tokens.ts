import { noteAccount } from '#domain/audit/audit.ts';
import type { Actor } from '#domain/audit/actor.ts';
import { organizationFor } from '#domain/teams/store.ts';
import { lockUser } from '#domain/users/users.ts';
import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken, newId, newToken } from '#lib/ids.ts';
import type { Scope } from './scopes.ts';
import type { SignInOrigin } from './sign-ins.ts';

/**
 * Personal access tokens: for programs that act as a user, on build servers most of all. Each is a sign-in with one
 * token that is never refreshed; decision 080 says why.
 */

const maxTokens = 50;

/** A token as its user sees it. */
export interface PersonalToken {
  readonly id: string;
  readonly name: string;
  readonly scopes: Scope[];
  readonly org_id: string | null;
  readonly last_four: string;
  readonly expires_at: Date | null;
  /** Exact to the minute. */
  readonly last_used_at: Date | null;
  readonly created_at: Date;
}

const columns = 'id, name, scopes, org_id, last_four, expires_at, last_used_at, created_at';

export interface PersonalTokenOrder {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly orgId: string | null;
  readonly expiresAt: Date | null;
}

interface Owner {
  readonly user: { readonly id: string };
  readonly actor: Actor;
  readonly origin: SignInOrigin;
}

/** @throws {ServiceError} `conflict` when the user has as many as anybody may */
const requireRoom = async (db: Queryable, userId: string): Promise<void> => {
  const { count } = await one(
    db.query<{ count: number }>('select count(*) as count from personal_tokens where user_id = $1', [userId]),
  );
  if (count < maxTokens) return;
  throw new ServiceError('conflict', `An account may have ${maxTokens} personal access tokens.`, {
    hint: 'Delete those that nobody uses; last_used_at names them.',
  });
};

/**
 * Makes a token; it is shown in this answer only. Needs a transaction.
 * @throws {ServiceError} `not_found` for an organization that the user is no member of; `conflict` when there are too
 * many
 */
export const createPersonalToken = async (
  db: Queryable,
  { user, actor, origin }: Owner,
  { name, scopes, orgId, expiresAt }: PersonalTokenOrder,
): Promise<PersonalToken & { readonly token: string }> => {
  if (orgId !== null && (await organizationFor(db, user.id, orgId)) === undefined) throw notFound('organization');
  await lockUser(db, user.id);
  await requireRoom(db, user.id);
  const [id, token] = [newId(), newToken('plinth_pat')];
  await db.query(`insert into sign_ins (id, user_id, kind, ip, user_agent) values ($1, $2, 'personal', $3, $4)`, [
    id,
    user.id,
    origin.ip,
    origin.userAgent ?? null,
  ]);
  await db.query(
    `insert into sign_in_tokens (hash, sign_in_id, kind, expires_at) values ($1, $2, 'personal', coalesce($3::timestamptz, 'infinity'))`,
    [hashToken(token), id, expiresAt],
  );
  const row = await one(
    db.query<PersonalToken>(
      `insert into personal_tokens (id, user_id, name, scopes, org_id, last_four, expires_at)
       values ($1, $2, $3, $4, $5, $6, $7) returning ${columns}`,
      [id, user.id, name, scopes, orgId, token.slice(-4), expiresAt],
    ),
  );
  const after = { name, scopes, org_id: orgId, expires_at: expiresAt };
  await noteAccount(db, user.id, { actor, action: 'personal_token.create', targetId: id, after });
  return { ...row, token };
};

/** The user's tokens, the newest first; expired ones are listed for a day. */
export const listPersonalTokens = async (
  db: Queryable,
  userId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ tokens: PersonalToken[]; total: number }> => {
  const tokens = await db.query<PersonalToken>(
    `select ${columns} from personal_tokens where user_id = $1 order by id desc limit $2 offset $3`,
    [userId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>('select count(*) as total from personal_tokens where user_id = $1', [userId]),
  );
  return { tokens, total };
};

/**
 * The token works no more. Needs a transaction.
 * @throws {ServiceError} `not_found`
 */
export const deletePersonalToken = async (
  db: Queryable,
  { userId, id, actor }: { readonly userId: string; readonly id: string; readonly actor: Actor },
): Promise<void> => {
  const deleted = await db.query(
    `delete from sign_ins where id = $1 and user_id = $2 and kind = 'personal' returning id`,
    [id, userId],
  );
  if (deleted.length === 0) throw notFound('personal access token');
  await noteAccount(db, userId, { actor, action: 'personal_token.delete', targetId: id });
};
