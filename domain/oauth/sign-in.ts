import type { SignInCall } from '#domain/end-users/end-users.ts';
import { AuthError } from '#domain/end-users/errors.ts';
import { takeFactorCode } from '#domain/end-users/factors.ts';
import { type ProvenUser, proveByPassword } from '#domain/end-users/sign-in.ts';
import { findAccount, requireNotBanned } from '#domain/end-users/users.ts';
import type { Amr } from './claims.ts';
import type { OAuthDeps } from './oauth.ts';

/** The part of a sign-in call that the hosted pages have. */
type HostedCall = Pick<SignInCall, 'project' | 'origin'>;

/** A user who has proved who they are, as the provider remembers it. */
export interface HostedSignIn {
  readonly accountId: string;
  readonly amr: Amr;
}

/** The password was right, and a code of a factor is still to come: sealed, to be sent back with the code. */
export interface HalfSignIn {
  readonly half: string;
}

const aboutHalf = (uid: string): string => `oauth-half:${uid}`;
const halfMs = 10 * 60_000;

interface Half {
  readonly userId: string;
  readonly at: number;
}

/*
 * As the sign-in of `auth/v1` does it: a password that was changed meanwhile lets nobody in, failures before are
 * forgotten, and the event is written with it.
 */
const noteSql = `
  with account as (
    update auth.accounts a set last_sign_in_at = now() from auth.users u
    where a.user_id = $1 and u.id = a.user_id and ($2::bytea is null or a.password_sealed = $2)
      and (u.banned_until is null or u.banned_until <= now()) returning u.id, u.email),
  given_back as (
    update auth.counts c set number = greatest(c.number - 1, 0) from account where c.key = $4 returning c.key),
  forgotten as (
    delete from auth.counts c using account where c.key = $3 and (select count(*) from given_back) >= 0)
  select id, auth.emit('auth.login', json_build_object('user_id', id, 'email', email, 'method', $5::text)) from account`;

const changed = (): AuthError => new AuthError('invalid_credentials', 'The user has changed meanwhile. Sign in again.');

/** Records the sign-in of a user. @throws {AuthError} `invalid_credentials` when the user has changed meanwhile */
export const noteSignIn = async (
  { endUsers }: Pick<OAuthDeps, 'endUsers'>,
  projectId: string,
  { user, counted }: ProvenUser,
  method: string,
): Promise<void> => {
  const rows = await endUsers.authDb.secrets(projectId, noteSql, [
    user.id,
    user.password_sealed,
    counted?.[0] ?? null,
    counted?.[1] ?? null,
    method,
  ]);
  if (rows.length === 0) throw changed();
  endUsers.markDirty(projectId);
};

/**
 * The first step of a hosted sign-in.
 * @param uid the interaction, which the second step belongs to as well
 * @throws {AuthError} as `proveByPassword`
 */
export const signInHosted = async (
  deps: Pick<OAuthDeps, 'endUsers'>,
  call: HostedCall,
  uid: string,
  given: { readonly email: string; readonly password: string },
): Promise<HostedSignIn | HalfSignIn> => {
  const { endUsers } = deps;
  const proven = await proveByPassword(endUsers, call, given);
  const { user } = proven;
  if (user.factors.some(({ status }) => status === 'verified')) {
    const half: Half = { userId: user.id, at: Date.now() };
    return { half: endUsers.sealer(call.project).seal(aboutHalf(uid), JSON.stringify(half)).toString('base64url') };
  }
  const { mfa } = await endUsers.settings.of(call.project.id);
  if (mfa === 'required') throw new AuthError('insufficient_aal', 'The project requires a second factor.');
  await noteSignIn(deps, call.project.id, proven, 'password');
  return { accountId: user.id, amr: ['pwd'] };
};

const tooLate = (): AuthError => new AuthError('mfa_challenge_expired', 'That took too long. Sign in again.');

const readHalf = ({ endUsers }: Pick<OAuthDeps, 'endUsers'>, call: HostedCall, uid: string, text: string): Half => {
  try {
    const sealed = Buffer.from(text, 'base64url');
    return JSON.parse(endUsers.sealer(call.project).open(aboutHalf(uid), sealed)) as Half;
  } catch {
    throw tooLate();
  }
};

/**
 * The second step, with a code of a factor.
 * @throws {AuthError} `mfa_challenge_expired`, `mfa_verification_failed`, `over_request_rate_limit`, `user_banned`
 */
export const finishHosted = async (
  deps: Pick<OAuthDeps, 'endUsers'>,
  call: HostedCall,
  uid: string,
  given: { readonly half: string; readonly code: string },
): Promise<HostedSignIn> => {
  const { endUsers } = deps;
  const { userId, at } = readHalf(deps, call, uid, given.half);
  if (Date.now() - at > halfMs) throw tooLate();
  const user = await findAccount(endUsers.authDb, call.project.id, userId);
  if (user === undefined) throw changed();
  requireNotBanned(user);
  await takeFactorCode(endUsers, call.project, userId, given.code);
  await noteSignIn(deps, call.project.id, { user, counted: null }, 'totp');
  return { accountId: userId, amr: ['pwd', 'otp', 'mfa'] };
};
