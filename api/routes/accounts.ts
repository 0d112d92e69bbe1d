import { z } from 'zod';
import { logIn, signUp } from '#domain/accounts/accounts.ts';
import { hashPassword } from '#domain/accounts/passwords.ts';
import { requestReset, resetPassword, userOfReset } from '#domain/accounts/resets.ts';
import { endSignIn, refresh, tokenForm } from '#domain/accounts/sign-ins.ts';
import { everyone, signedIn } from '../access.ts';
import { password, requestOf, signedInAnswer, signedInAs } from '#api/shapes/accounts.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { email, name, text } from '../fields.ts';
import { factorEndpoints } from './accounts/factors.ts';
import { dashboardSessionEndpoints } from './accounts/dashboard-session.ts';
import { deviceEndpoints } from './accounts/devices.ts';
import { personalTokenEndpoints } from './accounts/personal-tokens.ts';
import { profileEndpoints, sessionEndpoints } from './accounts/profile.ts';

const area = 'accounts';

/** Sign-up, login and what belongs to them (contract, section 2). */
export const accountEndpoints: readonly Endpoint[] = [
  ...profileEndpoints,
  ...sessionEndpoints,
  ...factorEndpoints,
  ...personalTokenEndpoints,
  ...dashboardSessionEndpoints,
  ...deviceEndpoints,
  endpoint({
    method: 'post',
    path: '/auth/signup',
    area,
    summary: 'Make an account, with an organization of its own, and sign in',
    access: everyone,
    rate: 'sign-in',
    transaction: 'none',
    body: z.strictObject({ email, password, full_name: name.nullish() }),
    status: 201,
    response: signedInAnswer,
    handle: async ({ body }, call) =>
      signedInAs(
        await signUp(
          call.deps.db,
          { email: body.email, password: body.password, fullName: body.full_name ?? null },
          requestOf(call).origin,
        ),
      ),
  }),
  endpoint({
    method: 'post',
    path: '/auth/login',
    area,
    summary: 'Sign in',
    access: everyone,
    rate: 'sign-in',
    transaction: 'none',
    body: z.strictObject({ email, password: text(128) }),
    response: signedInAnswer,
    handle: async ({ body }, call) =>
      signedInAs(await logIn(call.deps.db, body, { ...requestOf(call), form: tokenForm })),
  }),
  endpoint({
    method: 'post',
    path: '/auth/refresh',
    area,
    summary: 'Trade a refresh token for new tokens; each works once',
    access: everyone,
    rate: 'refresh',
    transaction: 'none',
    body: z.strictObject({ refresh_token: text(200) }),
    response: signedInAnswer,
    handle: async ({ body }, { deps }) => signedInAs(await refresh(deps.db, body.refresh_token)),
  }),
  endpoint({
    method: 'post',
    path: '/auth/logout',
    area,
    summary: 'End this sign-in: its access and refresh tokens',
    access: signedIn,
    status: 204,
    handle: (_input, { db, signInId }) => endSignIn(db, signInId),
  }),
  endpoint({
    method: 'post',
    path: '/auth/forgot',
    area,
    summary: 'Send a link to set a new password; answers alike for unknown addresses',
    access: everyone,
    rate: 'sign-in',
    body: z.strictObject({ email }),
    status: 202,
    response: z.object({ status: z.literal('accepted') }),
    transaction: 'none',
    handle: async ({ body }, { db, deps }) => {
      await requestReset(db, body.email);
      deps.resets.wake();
      return { status: 'accepted' as const };
    },
  }),
  endpoint({
    method: 'post',
    path: '/auth/reset',
    area,
    summary: 'Set a new password with the token of a reset link; ends all sign-ins',
    access: everyone,
    rate: 'sign-in',
    body: z.strictObject({ token: text(200), password }),
    status: 204,
    prepare: async ({ body }, { db }) => {
      await userOfReset(db, body.token);
      return hashPassword(body.password);
    },
    handle: ({ body, prepared }, { db }) => resetPassword(db, body.token, prepared),
  }),
];
