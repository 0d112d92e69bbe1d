import { z } from 'zod';
import { signInAnonymously } from '#domain/end-users/anonymous.ts';
import { AuthError } from '#domain/end-users/errors.ts';
import { exchangeFlowCode } from '#domain/end-users/flow-codes.ts';
import { requestReauthentication, updateProfile, userOfSession } from '#domain/end-users/profile.ts';
import { endSession, endSessions, refreshSession } from '#domain/end-users/sessions.ts';
import { captchaProviders } from '#domain/end-users/settings.ts';
import { signInWithPassword } from '#domain/end-users/sign-in.ts';
import { listProviders } from '#domain/upstream/providers.ts';
import { signUp } from '#domain/end-users/sign-up.ts';
import {
  authSession,
  authUser,
  authUserOf,
  redirectQuery,
  signUpBody,
  tokenBody,
  updateUserBody,
} from '#api/shapes/auth.ts';
import { everyone } from '../access.ts';
import {
  type AuthCall,
  authByUser,
  authCommon,
  authRoot,
  checkCaptcha,
  refusePhone,
  required,
  sessionFor,
  signInCallOf,
  targetOf,
  userOf,
} from '../auth-call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { keySet, publishedKeys } from './end-users.ts';

const grants: Readonly<
  Record<string, (call: AuthCall, body: z.output<typeof tokenBody>) => ReturnType<typeof signInWithPassword>>
> = {
  password: async (call, body) => {
    refusePhone(body.phone);
    await checkCaptcha(call, body);
    const given = { email: required(body.email, 'email'), password: required(body.password, 'password') };
    return signInWithPassword(call.deps.endUsers, signInCallOf(call, call.project), given);
  },
  pkce: (call, body) => {
    const given = {
      code: required(body.auth_code, 'auth_code'),
      verifier: required(body.code_verifier, 'code_verifier'),
    };
    return exchangeFlowCode(call.deps.endUsers, signInCallOf(call, call.project), given);
  },
  refresh_token: (call, body) =>
    refreshSession(call.deps.endUsers, signInCallOf(call, call.project), required(body.refresh_token, 'refresh_token')),
};

/** The tokens, or the user alone while the address waits to be confirmed. */
const signUpAnswer = z.union([authSession, authUser]);

/** Sign-in of a project's users, as supabase-js calls it (contract, section 9). */
export const authEndpoints: readonly Endpoint[] = [
  endpoint({
    ...authCommon,
    method: 'post',
    path: `${authRoot}/signup`,
    summary: 'Make a user with an e-mail address and a password; signs in, or mails a link to confirm the address',
    query: redirectQuery,
    body: signUpBody,
    response: signUpAnswer,
    handle: async ({ query, body }, call) => {
      refusePhone(body.phone);
      await checkCaptcha(call, body);
      if (!body.email) {
        const by = signInCallOf(call, call.project);
        return sessionFor(call, await signInAnonymously(call.deps.endUsers, by, body.data ?? {}));
      }
      const order = { email: body.email, password: required(body.password, 'password'), data: body.data ?? {} };
      const target = await targetOf(call, query.redirect_to, body);
      const done = await signUp(call.deps.endUsers, signInCallOf(call, call.project), order, target);
      if ('signedIn' in done) return sessionFor(call, done.signedIn);
      call.deps.endUserMails.wake();
      return authUserOf(done.pending);
    },
  }),
  endpoint({
    ...authCommon,
    method: 'post',
    path: `${authRoot}/token`,
    summary: 'Sign in with a password, or trade a refresh token for new tokens',
    query: z.object({ grant_type: z.string().max(100) }),
    body: tokenBody,
    response: authSession,
    handle: async ({ query, body }, call) => {
      const grant = Object.hasOwn(grants, query.grant_type) ? grants[query.grant_type] : undefined;
      if (grant === undefined) {
        throw new AuthError('validation_failed', `The grant_type must be ${Object.keys(grants).join(' or ')}.`);
      }
      return sessionFor(call, await grant(call, body));
    },
  }),
  endpoint({
    ...authCommon,
    access: authByUser,
    method: 'get',
    path: `${authRoot}/user`,
    summary: 'The user of the access token',
    response: authUser,
    handle: async (_input, call) => authUserOf(await userOfSession(call.deps.endUsers, call.project.id, userOf(call))),
  }),
  endpoint({
    ...authCommon,
    access: authByUser,
    method: 'put',
    path: `${authRoot}/user`,
    summary: 'Change the user of the access token; a new password ends the other sign-ins',
    query: redirectQuery,
    body: updateUserBody,
    response: authUser,
    handle: async ({ query, body }, call) => {
      refusePhone(body.phone);
      const change = {
        ...(await targetOf(call, query.redirect_to, body)),
        email: body.email ?? undefined,
        password: body.password ?? undefined,
        currentPassword: body.current_password ?? undefined,
        nonce: body.nonce || undefined,
        data: body.data ?? undefined,
      };
      const user = await updateProfile(call.deps.endUsers, signInCallOf(call, call.project), userOf(call), change);
      call.deps.endUserMails.wake();
      return authUserOf(user);
    },
  }),
  endpoint({
    ...authCommon,
    access: authByUser,
    method: 'get',
    path: `${authRoot}/reauthenticate`,
    summary: 'Mail a code to the user of the access token, who changes the password with it as nonce',
    response: z.object({}),
    handle: async (_input, call) => {
      const { endUsers } = call.deps;
      await requestReauthentication(endUsers, signInCallOf(call, call.project), userOf(call));
      call.deps.endUserMails.wake();
      return {};
    },
  }),
  endpoint({
    ...authCommon,
    access: authByUser,
    method: 'post',
    path: `${authRoot}/logout`,
    summary: 'End this sign-in, the other ones of the user, or all of them',
    query: z.object({ scope: z.enum(['global', 'local', 'others']).default('global') }),
    body: z.unknown(),
    status: 204,
    handle: async ({ query }, call) => {
      const { endUsers } = call.deps;
      const { userId, sessionId } = userOf(call);
      await userOfSession(endUsers, call.project.id, { userId, sessionId });
      if (query.scope === 'local') return endSession(endUsers, call.project.id, { userId, sessionId });
      return endSessions(endUsers, call.project.id, userId, query.scope === 'others' ? sessionId : null);
    },
  }),
  endpoint({
    ...authCommon,
    method: 'get',
    path: `${authRoot}/settings`,
    summary: 'Which ways to sign in the project offers',
    response: z.object({
      external: z.record(z.string(), z.boolean()),
      disable_signup: z.boolean(),
      mailer_autoconfirm: z.boolean(),
      phone_autoconfirm: z.literal(false),
      sms_provider: z.literal(''),
      saml_enabled: z.literal(false),
      mfa_enabled: z.boolean(),
      captcha: z
        .object({ provider: z.enum(captchaProviders), site_key: z.string().nullable() })
        .nullable()
        .describe('The captcha whose answer calls bring; null: none is asked for.'),
    }),
    handle: async (_input, { db, deps, project }) => {
      const providers = await listProviders(db, project.id);
      const others = Object.fromEntries(providers.map(({ provider, enabled }) => [provider, enabled]));
      const {
        signup,
        mfa,
        anonymous,
        confirm_email: mustConfirm,
        captcha,
      } = await deps.endUsers.settings.of(project.id);
      return {
        external: { ...others, email: true, phone: false, anonymous_users: anonymous },
        disable_signup: signup !== 'open',
        mailer_autoconfirm: !mustConfirm,
        phone_autoconfirm: false as const,
        sms_provider: '' as const,
        saml_enabled: false as const,
        mfa_enabled: mfa !== 'off',
        captcha: captcha && { provider: captcha.provider, site_key: captcha.site_key ?? null },
      };
    },
  }),
  endpoint({
    method: 'get',
    path: `${authRoot}/.well-known/jwks.json`,
    anyOrigin: true,
    errors: 'auth',
    area: 'auth',
    summary: 'The public keys that access tokens of the project’s users are verified with',
    access: everyone,
    params: authCommon.params,
    response: keySet,
    handle: async ({ params }, call) => {
      const project = await call.deps.keys.findProject(params.ref);
      return publishedKeys(call, project?.id ?? null);
    },
  }),
];
