import { createHash } from 'node:crypto';
import { hashToken, newToken } from '#lib/ids.ts';
import type { EndUserDeps, SignInCall } from './end-users.ts';
import { AuthError } from './errors.ts';
import { type SignedIn, type SignInMethod, tryBeginSession } from './sessions.ts';
import { findAccount, requireNotBanned } from './users.ts';

/*
 * PKCE (RFC 7636) as supabase-js uses it: a link leads back to the application with a code, which only the browser that
 * asked for the link can trade for a sign-in.
 */

const codeSeconds = 300;
const challengeForm = /^[\w-]{43}$/;

/** @throws {AuthError} `validation_failed`: only S256 is taken */
export const challengeOf = (challenge: string | null | undefined, method: string | null | undefined): string | null => {
  if (!challenge) return null;
  if (method?.toLowerCase() === 's256' && challengeForm.test(challenge)) return challenge;
  throw new AuthError('validation_failed', 'The code_challenge must be one of the method S256.');
};

/** A code for whoever has the verifier of this challenge. */
export const makeFlowCode = async (
  { authDb }: EndUserDeps,
  projectId: string,
  given: { readonly userId: string; readonly method: SignInMethod; readonly challenge: string },
): Promise<string> => {
  const code = newToken('plinth_code');
  await authDb.secrets(
    projectId,
    `insert into auth.flow_codes (hash, user_id, method, code_challenge, expires_at)
     values ($1, $2, $3, $4, now() + make_interval(secs => $5))`,
    [hashToken(code), given.userId, given.method, given.challenge, codeSeconds],
  );
  return code;
};

const wrongCode = (): AuthError =>
  new AuthError('flow_state_not_found', 'The code is wrong, was used, or is too old.', { hint: 'Sign in again.' });

/**
 * Trades a code for a sign-in. It works once: a second use ends what the first one obtained, since the code was copied.
 * @throws {AuthError} `flow_state_not_found`, `bad_code_verifier`, `user_banned`
 */
export const exchangeFlowCode = async (
  deps: EndUserDeps,
  call: SignInCall,
  given: { readonly code: string; readonly verifier: string },
): Promise<SignedIn> => {
  const { id: projectId } = call.project;
  const hash = hashToken(given.code);
  const [row] = await deps.authDb.secrets<{
    user_id: string;
    method: SignInMethod;
    code_challenge: string;
    is_open: boolean;
  }>(
    projectId,
    `select user_id, method, code_challenge, used_at is null and expires_at > now() as is_open
     from auth.flow_codes where hash = $1`,
    [hash],
  );
  if (row === undefined) throw wrongCode();
  if (createHash('sha256').update(given.verifier).digest('base64url') !== row.code_challenge) {
    throw new AuthError('bad_code_verifier', 'The code_verifier is not the one of this code.');
  }
  const user = row.is_open ? await findAccount(deps.authDb, projectId, row.user_id) : undefined;
  if (user !== undefined) requireNotBanned(user);
  const order = { method: row.method, passwordSealed: null, counted: null, codeHash: hash } as const;
  const signedIn = user && (await tryBeginSession(deps, call, { ...order, user }));
  if (signedIn !== undefined) return signedIn;
  await deps.authDb.secrets(
    projectId,
    'delete from auth.sessions s using auth.flow_codes f where f.hash = $1 and f.used_at is not null and s.id = f.session_id',
    [hash],
  );
  throw wrongCode();
};
