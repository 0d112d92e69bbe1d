import { z } from 'zod';
import { logIn, logInWithFactor } from '#domain/accounts/accounts.ts';
import { cookieForm, endSignIn } from '#domain/accounts/sign-ins.ts';
import { code, requestOf } from '#api/shapes/accounts.ts';
import { everyone, signedInByCookie } from '../../access.ts';
import { endSessionCookie, setSessionCookie } from '../../auth/session-cookie.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { email, text } from '../../fields.ts';

const area = 'accounts';

/** How a browser signs in to the dashboard (contract, section 13). */
export const dashboardSessionEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/dashboard/session',
    area,
    summary: 'Sign in with a cookie, for twelve hours after its last use and thirty days at most',
    access: everyone,
    rate: 'sign-in',
    transaction: 'none',
    body: z.strictObject({ email, password: text(128) }),
    status: 204,
    handle: async ({ body }, call) => {
      const { tokens } = await logIn(call.deps.db, body, { ...requestOf(call), form: cookieForm });
      setSessionCookie(call, tokens);
    },
  }),
  endpoint({
    method: 'post',
    path: '/dashboard/session/factor',
    area,
    summary: 'The second step of a sign-in with a cookie: a code of the second factor',
    access: everyone,
    rate: 'sign-in',
    transaction: 'none',
    body: z.strictObject({ factor_token: text(200), code }),
    status: 204,
    handle: async ({ body }, call) => {
      const given = { factorToken: body.factor_token, code: body.code };
      const { tokens } = await logInWithFactor(call.deps, given, { ...requestOf(call), form: cookieForm });
      setSessionCookie(call, tokens);
    },
  }),
  endpoint({
    method: 'delete',
    path: '/dashboard/session',
    area,
    summary: 'End the sign-in of the cookie',
    access: signedInByCookie,
    handle: async (_input, call) => {
      await endSignIn(call.db, call.signInId);
      endSessionCookie(call);
    },
  }),
];
