import { z } from 'zod';
import type { SignInCall } from '#domain/end-users/end-users.ts';
import { AuthError } from '#domain/end-users/errors.ts';
import { type SignedInUser, updateProfile, userOfSession } from '#domain/end-users/profile.ts';
import { endSession, endSessions, refreshSession } from '#domain/end-users/sessions.ts';
import { signInWithPassword } from '#domain/end-users/sign-in.ts';
import { signUp } from '#domain/end-users/sign-up.ts';
import { publicKeysOf } from '#domain/end-users/tokens.ts';
import { restUrl } from '#api/http/rest-url.ts';
import {
  authSession,
  authSessionOf,
  authUser,
  authUserOf,
  signUpBody,
  tokenBody,
  updateUserBody,
} from '#api/shapes/auth.ts';
import { type WithKey, everyone, withKey } from '../access.ts';
import { networkOf } from '../address.ts';
import type { Call } from '../call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';

const area = 'auth';
const root = '/p/{ref}/auth/v1';
const ref = z.object({ ref: z.string() });

const access = withKey('secret', 'publishable', 'user');
/** With the token of the user who is meant. */
const byUser = { ...access, byUser: true } as const;
type AuthCall = Call<WithKey<'secret' | 'publishable' | 'user'>>;

const common = { area, access, rate: 'data', errors: 'auth', params: ref, transaction: 'none' } as const;

const signInCallOf = (call: AuthCall): SignInCall => ({
  project: call.project,
  urls: { issuer: `${call.baseUrl}/oauth/${call.project.id}`, audience: restUrl(call.project.ref, call) },
  origin: { ip: call.ip, network: networkOf(call.ip), userAgent: call.userAgent },
});

/** The user of the call's token, which was verified. @throws {AuthError} `session_not_found` */
const userOf = ({ caller }: AuthCall): SignedInUser => {
  const { sub, session_id: sessionId } = JSON.parse(caller.claims) as { sub: string; session_id?: string };
  if (sessionId === undefined) throw new AuthError('session_not_found', 'This token belongs to no sign-in.');
  return { userId: sub, sessionId };
};

const refusePhone = (phone: string | null | undefined): void => {
  if (!phone) return;
  throw new AuthError('phone_provider_disabled', 'Signing in by phone is not offered here.');
};

const required = (value: string | null | undefined, name: string): string => {
  if (typeof value === 'string' && value !== '') return value;
  throw new AuthError('validation_failed', `The field ${name} is missing.`);
};

const grants: Readonly<
  Record<string, (call: AuthCall, body: z.output<typeof tokenBody>) => ReturnType<typeof signInWithPassword>>
> = {
  password: (call, body) => {
    refusePhone(body.phone);
    const given = { email: required(body.email, 'email'), password: required(body.password, 'password') };
    return signInWithPassword(call.deps.endUsers, signInCallOf(call), given);
  },
  refresh_token: (call, body) =>
    refreshSession(call.deps.endUsers, signInCallOf(call), required(body.refresh_token, 'refresh_token')),
};

const jwk = z.looseObject({ kty: z.string(), kid: z.string(), alg: z.string(), use: z.string() });

/** Sign-in of a project's users, as supabase-js calls it (contract, section 9). */
export const authEndpoints: readonly Endpoint[] = [
  endpoint({
    ...common,
    method: 'post',
    path: `${root}/signup`,
    summary: 'Make a user with an e-mail address and a password, and sign them in',
    body: signUpBody,
    response: authSession,
    handle: async ({ body }, call) => {
      refusePhone(body.phone);
      if (!body.email) throw new AuthError('anonymous_provider_disabled', 'Signing in anonymously is turned off.');
      const order = { email: body.email, password: required(body.password, 'password'), data: body.data ?? {} };
      return authSessionOf(await signUp(call.deps.endUsers, signInCallOf(call), order));
    },
  }),
  endpoint({
    ...common,
    method: 'post',
    path: `${root}/token`,
    summary: 'Sign in with a password, or trade a refresh token for new tokens',
    query: z.object({ grant_type: z.string().max(100) }),
    body: tokenBody,
    response: authSession,
    handle: async ({ query, body }, call) => {
      const grant = Object.hasOwn(grants, query.grant_type) ? grants[query.grant_type] : undefined;
      if (grant === undefined) {
        throw new AuthError('validation_failed', `The grant_type must be ${Object.keys(grants).join(' or ')}.`);
      }
      return authSessionOf(await grant(call, body));
    },
  }),
  endpoint({
    ...common,
    access: byUser,
    method: 'get',
    path: `${root}/user`,
    summary: 'The user of the access token',
    response: authUser,
    handle: async (_input, call) => authUserOf(await userOfSession(call.deps.endUsers, call.project.id, userOf(call))),
  }),
  endpoint({
    ...common,
    access: byUser,
    method: 'put',
    path: `${root}/user`,
    summary: 'Change the user of the access token: metadata, password; a new password ends the other sign-ins',
    body: updateUserBody,
    response: authUser,
    handle: async ({ body }, call) => {
      refusePhone(body.phone);
      const change = {
        password: body.password ?? undefined,
        currentPassword: body.current_password ?? undefined,
        data: body.data ?? undefined,
      };
      return authUserOf(await updateProfile(call.deps.endUsers, signInCallOf(call), userOf(call), change));
    },
  }),
  endpoint({
    ...common,
    access: byUser,
    method: 'post',
    path: `${root}/logout`,
    summary: 'End this sign-in, the other ones of the user, or all of them',
    query: z.object({ scope: z.enum(['global', 'local', 'others']).default('global') }),
    body: z.unknown(),
    status: 204,
    handle: async ({ query }, call) => {
      const { endUsers } = call.deps;
      const { userId, sessionId } = userOf(call);
      if (query.scope === 'local') return endSession(endUsers, call.project.id, { userId, sessionId });
      return endSessions(endUsers, call.project.id, userId, query.scope === 'others' ? sessionId : null);
    },
  }),
  endpoint({
    ...common,
    method: 'get',
    path: `${root}/settings`,
    summary: 'Which ways to sign in the project offers',
    response: z.object({
      external: z.record(z.string(), z.boolean()),
      disable_signup: z.boolean(),
      mailer_autoconfirm: z.boolean(),
      phone_autoconfirm: z.literal(false),
      sms_provider: z.literal(''),
      saml_enabled: z.literal(false),
      mfa_enabled: z.boolean(),
    }),
    handle: async (_input, { deps, project }) => {
      const { signup } = await deps.endUsers.settings.of(project.id);
      return {
        external: { email: true, phone: false, anonymous_users: false },
        disable_signup: signup !== 'open',
        mailer_autoconfirm: true,
        phone_autoconfirm: false as const,
        sms_provider: '' as const,
        saml_enabled: false as const,
        mfa_enabled: false,
      };
    },
  }),
  endpoint({
    method: 'get',
    path: `${root}/.well-known/jwks.json`,
    anyOrigin: true,
    errors: 'auth',
    area,
    summary: 'The public keys that access tokens of the project’s users are verified with',
    access: everyone,
    params: ref,
    response: z.object({ keys: z.array(jwk) }),
    handle: async ({ params }, { db, deps }) => {
      const project = await deps.keys.findProject(params.ref);
      const keys = project === undefined ? [] : await publicKeysOf(db, project.id);
      return { keys: keys as z.output<typeof jwk>[] };
    },
  }),
];
