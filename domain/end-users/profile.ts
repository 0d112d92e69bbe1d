import { beginAttempt, forgetAttempt, requireMailRoom } from './attempts.ts';
import type { EndUserDeps, SignInCall } from './end-users.ts';
import { AuthError } from './errors.ts';
import { isPasswordOf, requireStrong, sealPassword } from './passwords.ts';
import { takeReauthentication } from './links.ts';
import type { SignInMethod } from './sessions.ts';
import { type LinkTarget, requireAddress, requireStorable } from './sign-up.ts';
import {
  type EndUserAccount,
  emailProvider,
  findAccount,
  isUniqueEmail,
  requireNotBanned,
  userEventSql,
} from './users.ts';

/** A user who is signed in, as the access token says. */
export interface SignedInUser {
  readonly userId: string;
  readonly sessionId: string;
}

interface LiveSession {
  /** The last proof of who the user is, in ms. */
  readonly provedAt: number;
  readonly method: SignInMethod;
  /** 2: with a second factor. */
  readonly aal: 1 | 2;
}

/** @throws {AuthError} `session_not_found` */
const requireSession = async (
  { authDb }: EndUserDeps,
  projectId: string,
  { userId, sessionId }: SignedInUser,
): Promise<LiveSession> => {
  const [row] = await authDb.secrets<{ proved: number; method: SignInMethod; aal: 1 | 2 }>(
    projectId,
    `select (amr -> -1 ->> 'timestamp')::float8 as proved, amr -> -1 ->> 'method' as method, aal from auth.sessions where id = $1 and user_id = $2`,
    [sessionId, userId],
  );
  if (row === undefined) throw new AuthError('session_not_found', 'The sign-in of this token has ended.');
  return { provedAt: row.proved * 1000, method: row.method, aal: row.aal };
};

/**
 * The user of a token.
 * @throws {AuthError} `session_not_found`, `user_not_found`, `user_banned`
 */
export const userOfSession = async (
  deps: EndUserDeps,
  projectId: string,
  signedIn: SignedInUser,
): Promise<EndUserAccount & { readonly session: LiveSession }> => {
  const account = await findAccount(deps.authDb, projectId, signedIn.userId);
  if (account === undefined)
    throw new AuthError('user_not_found', 'The user of this token is deleted.', { status: 403 });
  requireNotBanned(account);
  return { ...account, session: await requireSession(deps, projectId, signedIn) };
};

/** A change that a user makes to their own account. */
export interface ProfileChange extends LinkTarget {
  readonly email?: string | undefined;
  readonly password?: string | undefined;
  readonly currentPassword?: string | undefined;
  /** The code of `requestReauthentication`, in its place. */
  readonly nonce?: string | undefined;
  /** Merged into `user_metadata`; null removes a name. */
  readonly data?: Readonly<Record<string, unknown>> | undefined;
}

/** After that the present password is asked for: a token that was stolen from an old sign-in must not take over. */
const provedForMs = 24 * 3600 * 1000;

/**
 * Mails a code to the user, who shows it in place of the present password.
 * @throws {AuthError} as `userOfSession`; `validation_failed` without a confirmed address, `over_request_rate_limit`
 */
export const requestReauthentication = async (
  deps: EndUserDeps,
  call: SignInCall,
  signedIn: SignedInUser,
): Promise<void> => {
  const { project } = call;
  const user = await userOfSession(deps, project.id, signedIn);
  if (user.email === null || user.email_confirmed_at === null) {
    throw new AuthError('validation_failed', 'The user has no confirmed e-mail address.', { status: 422 });
  }
  await requireMailRoom(deps, call);
  await deps.mails.require(project);
  const target = { redirectTo: null, codeChallenge: null };
  await deps.mails.request(project, { kind: 'reauthentication', userId: user.id, email: user.email, ...target });
};

const notValid = (): AuthError =>
  new AuthError('reauthentication_not_valid', 'The code is wrong, was used, or is too old.', {
    hint: 'Ask for a new one, or send current_password.',
  });

const requireProof = async (
  deps: EndUserDeps,
  { project, origin }: SignInCall,
  user: EndUserAccount & { readonly session: LiveSession },
  { currentPassword: current, nonce }: Pick<ProfileChange, 'currentPassword' | 'nonce'>,
): Promise<void> => {
  if (current === undefined && Date.now() - user.session.provedAt < provedForMs) return;
  if (nonce !== undefined) {
    if (await takeReauthentication(deps, project, user.email ?? '', nonce)) return;
    throw notValid();
  }
  if (current !== undefined) {
    // A stolen token must not be a way to guess the password.
    const by = { email: user.email ?? user.id, network: origin.network };
    const attempt = await beginAttempt(deps.authDb, project.id, by, deps.isLimited);
    if (await isPasswordOf(deps, project, user, current)) return forgetAttempt(deps.authDb, project.id, attempt);
  }
  throw new AuthError('reauthentication_needed', 'Changing the password needs the present one.', {
    hint: 'Send current_password, or the nonce that reauthenticate mails, or sign in again.',
  });
};

/**
 * With a second factor the password alone, or a link that was mailed, changes nothing that lets somebody in. Nor does a
 * member of the team who acts as the user.
 * @param isAlways also for a user who has none
 * @throws {AuthError} `insufficient_aal`
 */
export const requireFullSignIn = (user: EndUserAccount & { readonly session: LiveSession }, isAlways = false): void => {
  if (user.session.method === 'impersonation') {
    throw new AuthError('insufficient_aal', 'Who acts as a user cannot change how the user signs in.', {
      hint: 'The administration of users can.',
    });
  }
  const hasFactor = user.factors.some(({ status }) => status === 'verified');
  if ((!hasFactor && !isAlways) || user.session.aal === 2) return;
  throw new AuthError('insufficient_aal', 'This needs a sign-in with the second factor.', {
    hint: 'Verify a code of the factor first.',
  });
};

/**
 * The user of a token, who may change the ways to sign in to the account.
 * @throws {AuthError} as `userOfSession`, and `insufficient_aal`
 */
export const requireOwner = async (
  deps: EndUserDeps,
  projectId: string,
  signedIn: SignedInUser,
): Promise<EndUserAccount> => {
  const user = await userOfSession(deps, projectId, signedIn);
  const { mfa } = await deps.settings.of(projectId);
  requireFullSignIn(user, mfa === 'required');
  return user;
};

const newPassword = async (
  deps: EndUserDeps,
  call: SignInCall,
  user: EndUserAccount & { readonly session: LiveSession },
  { password, ...proof }: ProfileChange,
): Promise<Buffer | null> => {
  if (password === undefined) return null;
  requireFullSignIn(user);
  await requireStrong(deps, password, await deps.settings.of(call.project.id));
  await requireProof(deps, call, user, proof);
  if (await isPasswordOf(deps, call.project, user, password)) {
    throw new AuthError('same_password', 'The new password must differ from the present one.');
  }
  return sealPassword(deps, call.project, user.id, password);
};

const mergedData = (
  present: Readonly<Record<string, unknown>>,
  data: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries({ ...present, ...data }).filter(([, value]) => value !== null));

const updateSql = `
  with u as (
    update auth.users u set
      raw_user_meta_data = $2,
      email = coalesce($5, u.email),
      email_confirmed_at = case when $5::text is null then u.email_confirmed_at else now() end,
      is_anonymous = u.is_anonymous and $5::text is null,
      raw_app_meta_data = case when u.is_anonymous and $5::text is not null
        then u.raw_app_meta_data || '${emailProvider}' else u.raw_app_meta_data end,
      updated_at = now()
    where u.id = $1
    returning u.id, u.email, u.email_confirmed_at, u.raw_user_meta_data, u.raw_app_meta_data, u.is_anonymous,
      u.created_at, u.updated_at)
  select case when $3::bytea is not null then auth.set_password(u.id, $3, $4) end,
    case when $5::text is not null then auth.put_email(u.id, u.email, false) end,
    case when $6::json is not null then auth.emit('auth.password_reset', $6) end,
    auth.emit('user.updated', ${userEventSql})
  from u`;

/** The new address when it takes effect at once, and when it waits to be confirmed by both mailboxes. */
interface NewEmail {
  readonly now: string | null;
  readonly later: string | null;
}

const newEmail = async (
  deps: EndUserDeps,
  call: SignInCall,
  user: EndUserAccount & { readonly session: LiveSession },
  given: string | undefined,
): Promise<NewEmail> => {
  const { project } = call;
  const email = given === undefined ? user.email : requireAddress(given);
  if (email === user.email) return { now: null, later: null };
  requireFullSignIn(user);
  const { confirm_email: mustConfirm } = await deps.settings.of(project.id);
  if (!mustConfirm) return { now: email, later: null };
  // The new address may be anybody's.
  await requireMailRoom(deps, call);
  await deps.mails.require(project);
  return { now: null, later: email };
};

/** An address that was never confirmed has no say in its replacement. */
const putNewEmail = async (
  deps: EndUserDeps,
  project: SignInCall['project'],
  user: EndUserAccount & { readonly later: string },
  { redirectTo, codeChallenge }: LinkTarget,
): Promise<void> => {
  await deps.authDb.secrets(
    project.id,
    `update auth.accounts set new_email = $2, new_email_half = case when $3 then null else 'current' end
     where user_id = $1`,
    [user.id, user.later, user.email_confirmed_at !== null],
  );
  const email = user.email ?? user.later;
  await deps.mails.request(project, { kind: 'email_change', userId: user.id, email, redirectTo, codeChallenge });
};

/**
 * Changes a user at their own request; a new password ends their other sign-ins.
 * @throws {AuthError} as `userOfSession`, and `weak_password`, `same_password`, `reauthentication_needed`,
 * `email_address_invalid`, `email_exists`, `validation_failed`
 */
export const updateProfile = async (
  deps: EndUserDeps,
  call: SignInCall,
  signedIn: SignedInUser,
  change: ProfileChange,
): Promise<EndUserAccount> => {
  const { id: projectId } = call.project;
  const user = await userOfSession(deps, projectId, signedIn);
  const { mfa } = await deps.settings.of(projectId);
  if (mfa === 'required') requireFullSignIn(user, true);
  const metadata = mergedData(user.raw_user_meta_data, change.data);
  requireStorable(metadata);
  const email = await newEmail(deps, call, user, change.email);
  const password = await newPassword(deps, call, user, change);
  const isReset = password !== null && user.session.method === 'recovery';
  await deps.authDb
    .users(projectId, updateSql, [
      user.id,
      JSON.stringify(metadata),
      password,
      signedIn.sessionId,
      email.now,
      isReset ? JSON.stringify({ user_id: user.id, email: user.email }) : null,
    ])
    .catch((error: unknown) => {
      throw isUniqueEmail(error)
        ? new AuthError('email_exists', 'There is a user with this e-mail address already.')
        : error;
    });
  if (email.later !== null) await putNewEmail(deps, call.project, { ...user, later: email.later }, change);
  deps.markDirty(projectId);
  return userOfSession(deps, projectId, signedIn);
};
