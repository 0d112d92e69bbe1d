import { type SignInRequest, actorOf, signUp } from './accounts.ts';
import { beginCodeAttempt, lockProven, provePassword } from './proof.ts';
import { findFactor, takeCode } from './codes.ts';
import { endAllSignIns } from './sign-ins.ts';
import { type User, findUserByEmail, lockUser } from '#domain/users/users.ts';
import { actingAs } from '#domain/audit/actor.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type Invite, findInvite } from '#domain/teams/store.ts';
import { acceptInvite } from '#domain/teams/teams.ts';

/** Acceptance of an invite by somebody who is not signed in: the link and the password say who it is. */
export interface JoinDeps {
  readonly db: ControlDb;
  readonly sealer: Sealer;
  /** Organizations that one user may own. */
  readonly maxOwned: number;
}

export interface OpenInvite {
  readonly invite: Invite;
  /** Whether the invited address has an account. */
  readonly user: User | undefined;
}

/**
 * Returns the invitation behind a link, as long as it can be accepted.
 * @throws {ServiceError} `not_found`, `already_member`, `expired`
 */
export const openInvite = async (db: Queryable, token: string): Promise<OpenInvite> => {
  const invite = await findInvite(db, hashToken(token));
  if (invite === undefined) throw notFound('invite');
  if (invite.status === 'active') {
    throw new ServiceError('already_member', `You are a member of ${invite.org_name} already.`);
  }
  if (invite.expired) {
    throw new ServiceError('expired', 'This invite is too old.', { hint: 'Ask for it to be sent again.' });
  }
  const found = await findUserByEmail(db, invite.email);
  if (found === undefined) return { invite, user: undefined };
  const { password_hash: _hash, ...user } = found;
  return { invite, user };
};

/** @returns false: the account asks for a second factor, and no code was given */
const proveFactor = async (
  { db, sealer }: JoinDeps,
  user: User,
  { code, isLimited }: { readonly code: string; readonly isLimited: boolean },
): Promise<boolean> => {
  if (!(await findFactor(db, user.id))?.verified_at) return true;
  if (code === '') return false;
  const attempt = await beginCodeAttempt(db, user.email, isLimited);
  const method = await db.transaction(async (tx) => {
    await lockUser(tx, user.id);
    return takeCode({ db: tx, sealer }, user.id, code);
  });
  if (method === undefined) throw new ServiceError('invalid_credentials', 'The code is wrong, or was used before.');
  await attempt.refund();
  return true;
};

/**
 * Accepts an invite for the account of its address, by the password and, where the account has one, the second factor.
 * No sign-in begins.
 * @param given.code empty: not asked for yet
 * @returns false: the password is right, and a code is needed, too
 * @throws {ServiceError} `invalid_credentials`, `rate_limited`, and what `acceptInvite` throws
 */
export const joinAsUser = async (
  deps: JoinDeps,
  user: User,
  given: { readonly token: string; readonly password: string; readonly code: string },
  request: SignInRequest,
): Promise<boolean> => {
  const { isLimited } = request;
  const provenHash = await provePassword(deps.db, user, { password: given.password, isLimited });
  if (!(await proveFactor(deps, user, { code: given.code, isLimited }))) return false;
  await deps.db.transaction(
    async (tx) => {
      await acceptInvite(tx, user, { token: given.token, maxOwned: deps.maxOwned });
      await lockProven(tx, user.id, provenHash);
    },
    actingAs(actorOf(user, request.origin), 'member.accept'),
  );
  return true;
};

/**
 * Makes an account for the invited address and accepts the invite. No sign-in is left open.
 * @throws {ServiceError} `email_taken`, and what `acceptInvite` throws
 */
export const joinAsNewUser = async (
  deps: JoinDeps,
  { invite }: OpenInvite,
  given: { readonly token: string; readonly password: string; readonly fullName: string | null },
  request: SignInRequest,
): Promise<void> => {
  const input = { email: invite.email, password: given.password, fullName: given.fullName };
  const { user } = await signUp(deps.db, input, request.origin);
  await deps.db.transaction(
    async (tx) => {
      await acceptInvite(tx, user, { token: given.token, maxOwned: deps.maxOwned });
      await endAllSignIns(tx, user.id);
    },
    actingAs(actorOf(user, request.origin), 'member.accept'),
  );
};
