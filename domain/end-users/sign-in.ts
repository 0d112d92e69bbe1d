import { type Attempt, beginAttempt } from './attempts.ts';
import type { EndUserDeps, SignInCall } from './end-users.ts';
import { AuthError } from './errors.ts';
import { decoyFor } from './decoys.ts';
import { checkPassword, renewHash } from './passwords.ts';
import type { LinkKind, UsedLink } from './links.ts';
import { type SignInMethod, type SignedIn, beginSession } from './sessions.ts';
import { type EndUserAccount, findAccount, findAccountByEmail, normalEmail, requireNotBanned } from './users.ts';

/** The same for a wrong password and for an address that nobody has. */
const wrong = (): AuthError => new AuthError('invalid_credentials', 'The e-mail address or the password is wrong.');

/** A user who has shown the password, and the counts of failed tries to forget with the sign-in. */
export interface ProvenUser {
  readonly user: EndUserAccount;
  readonly counted: Attempt['keys'];
}

/**
 * The user of an address and password. Only who knows the password learns that the user is banned.
 * @throws {AuthError} `invalid_credentials`, `user_banned`, `email_not_confirmed`, `over_request_rate_limit`
 */
export const proveByPassword = async (
  deps: EndUserDeps,
  { project, origin }: Pick<SignInCall, 'project' | 'origin'>,
  given: { readonly email: string; readonly password: string },
): Promise<ProvenUser> => {
  const email = normalEmail(given.email);
  const attempt = await beginAttempt(deps.authDb, project.id, { email, network: origin.network }, deps.isLimited);
  const user = await findAccountByEmail(deps.authDb, project.id, email);
  const decoy = await decoyFor(deps, project, email);
  const { isRight, foreign } = await checkPassword(deps, project, user, { password: given.password, decoy });
  if (user === undefined || !isRight) throw wrong();
  requireNotBanned(user);
  const { confirm_email: mustConfirm } = await deps.settings.of(project.id);
  if (mustConfirm && user.email_confirmed_at === null) {
    throw new AuthError('email_not_confirmed', 'The e-mail address is not confirmed yet.', {
      hint: 'Open the link in the mail, or ask for another one.',
    });
  }
  if (foreign === null) return { user, counted: attempt.keys };
  const renewed = await renewHash(deps, project, user, { password: given.password, foreign });
  return { user: { ...user, password_sealed: renewed }, counted: attempt.keys };
};

/** Signs a user in. @throws {AuthError} as `proveByPassword` */
export const signInWithPassword = async (
  deps: EndUserDeps,
  call: SignInCall,
  given: { readonly email: string; readonly password: string },
): Promise<SignedIn> => {
  const { user, counted } = await proveByPassword(deps, call, given);
  return beginSession(deps, call, { user, method: 'password', passwordSealed: user.password_sealed, counted });
};

/** How a user who used such a link proved who they are. */
export const methodOf = (kind: LinkKind): SignInMethod => (kind === 'recovery' ? 'recovery' : 'otp');

/**
 * Signs in whoever used a link or code of a mail, which proved the address.
 * @throws {AuthError} `user_not_found`, `user_banned`
 */
export const signInByLink = async (
  deps: EndUserDeps,
  call: SignInCall,
  { userId, kind }: Pick<UsedLink, 'userId' | 'kind'>,
): Promise<SignedIn> => {
  const user = await findAccount(deps.authDb, call.project.id, userId);
  if (user === undefined) throw new AuthError('user_not_found', 'The user was deleted meanwhile.');
  requireNotBanned(user);
  return beginSession(deps, call, { user, method: methodOf(kind), passwordSealed: null, counted: null });
};
