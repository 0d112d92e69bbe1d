import { beginAttempt } from './attempts.ts';
import type { EndUserDeps, SignInCall } from './end-users.ts';
import { AuthError } from './errors.ts';
import { isPasswordOf } from './passwords.ts';
import { type SignedIn, beginSession } from './sessions.ts';
import { findAccountByEmail, normalEmail, requireNotBanned } from './users.ts';

/** The same for a wrong password and for an address that nobody has. */
const wrong = (): AuthError => new AuthError('invalid_credentials', 'The e-mail address or the password is wrong.');

/**
 * Signs a user in. Only who knows the password learns that the user is banned.
 * @throws {AuthError} `invalid_credentials`, `user_banned`, `over_request_rate_limit`
 */
export const signInWithPassword = async (
  deps: EndUserDeps,
  call: SignInCall,
  given: { readonly email: string; readonly password: string },
): Promise<SignedIn> => {
  const { project, origin } = call;
  const email = normalEmail(given.email);
  const attempt = await beginAttempt(deps.authDb, project.id, { email, network: origin.network }, deps.isLimited);
  const account = await findAccountByEmail(deps.authDb, project.id, email);
  const isRight = await isPasswordOf(deps, project, account, given.password);
  if (account === undefined || !isRight) throw wrong();
  requireNotBanned(account);
  return beginSession(deps, call, {
    user: account,
    method: 'password',
    passwordSealed: account.password_sealed,
    counted: attempt.keys,
  });
};
