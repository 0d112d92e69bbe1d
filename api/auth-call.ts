import { z } from 'zod';
import { requireCaptcha } from '#domain/end-users/captcha.ts';
import type { SignInCall } from '#domain/end-users/end-users.ts';
import { AuthError } from '#domain/end-users/errors.ts';
import { type SignedIn, ownClientId } from '#domain/end-users/sessions.ts';
import { challengeOf } from '#domain/end-users/flow-codes.ts';
import type { SignedInUser } from '#domain/end-users/profile.ts';
import { redirectFor } from '#domain/end-users/redirects.ts';
import type { LinkTarget } from '#domain/end-users/sign-up.ts';
import type { Project } from '#domain/projects/store.ts';
import { type WithKey, withKey } from './access.ts';
import { authSessionOf } from '#api/shapes/auth.ts';
import { networkOf } from './address.ts';
import type { BaseCall, Call } from './call.ts';
import { restUrl } from './http/rest-url.ts';

/** Shared by all endpoints below `auth/v1`. */

export const authRoot = '/p/{ref}/auth/v1';

/** A key of the project, and the user's token where a user is meant. */
const authAccess = withKey('secret', 'publishable', 'user');
/** With the token of the user who is meant. */
export const authByUser = { ...authAccess, byUser: true } as const;

export type AuthCall = Call<WithKey<'secret' | 'publishable' | 'user'>>;

export const authCommon = {
  area: 'auth',
  access: authAccess,
  rate: 'data',
  errors: 'auth',
  params: z.object({ ref: z.string() }),
  transaction: 'none',
} as const;

/** A sign-in to a project, as the request asks for it. */
export const signInCallOf = (
  call: Pick<BaseCall, 'baseUrl' | 'deps' | 'ip' | 'userAgent'>,
  project: Project,
): SignInCall => ({
  project,
  urls: { issuer: `${call.baseUrl}/oauth/${project.id}`, audience: restUrl(project.ref, call) },
  origin: { ip: call.ip, network: networkOf(call.ip), userAgent: call.userAgent },
});

/** The tokens of a sign-in; the log of the project says whose it is. */
export const sessionFor = (call: AuthCall, signedIn: SignedIn): ReturnType<typeof authSessionOf> => {
  call.noteLine({ user_id: signedIn.user.id });
  return authSessionOf(signedIn);
};

export const refusePhone = (phone: string | null | undefined): void => {
  if (!phone) return;
  throw new AuthError('phone_provider_disabled', 'Signing in by phone is not offered here.');
};

export const required = (value: string | null | undefined, name: string): string => {
  if (typeof value === 'string' && value !== '') return value;
  throw new AuthError('validation_failed', `The field ${name} is missing.`);
};

interface Challenged {
  readonly code_challenge?: string | null | undefined;
  readonly code_challenge_method?: string | null | undefined;
}

/** Where a link that is mailed leads to. @throws {AuthError} `validation_failed` for a challenge that is none */
export const targetOf = async (
  { deps, project }: AuthCall,
  wanted: string | undefined,
  body: Challenged,
): Promise<LinkTarget> => ({
  redirectTo: redirectFor(await deps.endUsers.settings.of(project.id), wanted),
  codeChallenge: challengeOf(body.code_challenge, body.code_challenge_method),
});

const uuidForm = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

interface TokenClaims {
  readonly sub: string;
  /** Whatever the project put there, where it signed the token itself. */
  readonly session_id?: unknown;
  readonly client_id?: string;
}

/**
 * The user of the call's token, which was verified. A client of the OpenID provider acts for its user on data; the
 * account itself is not for it to change.
 * @throws {AuthError} `session_not_found`, `access_denied`
 */
export const userOf = ({ caller }: AuthCall): SignedInUser => {
  const { sub, session_id: sessionId, client_id: clientId } = JSON.parse(caller.claims) as TokenClaims;
  if (clientId !== undefined && clientId !== ownClientId) {
    throw new AuthError('access_denied', 'The token of a client of the OpenID provider may not do this.');
  }
  if (typeof sessionId !== 'string' || !uuidForm.test(sessionId) || !uuidForm.test(sub)) {
    throw new AuthError('session_not_found', 'This token belongs to no sign-in.');
  }
  return { userId: sub, sessionId };
};

interface WithCaptcha {
  readonly gotrue_meta_security?: { readonly captcha_token?: string | null | undefined } | null | undefined;
}

/** Checks the captcha of a request where the project asks for one. @throws as `requireCaptcha` */
export const checkCaptcha = (
  { deps, project, ip }: AuthCall,
  { gotrue_meta_security: meta }: WithCaptcha,
): Promise<void> => requireCaptcha(deps.endUsers, project, { token: meta?.captcha_token, ip });
