import { z } from 'zod';
import { requireMailRoom } from '#domain/end-users/attempts.ts';
import { AuthError } from '#domain/end-users/errors.ts';
import { type UsedLink, takeCode, takeLink } from '#domain/end-users/links.ts';
import type { MailOrder } from '#domain/end-users/mails.ts';
import { signInByLink } from '#domain/end-users/sign-in.ts';
import { requireAddress, requireStorable } from '#domain/end-users/sign-up.ts';
import { authSession, otpBody, recoverBody, redirectQuery, resendBody, verifyBody } from '#api/shapes/auth.ts';
import {
  type AuthCall,
  authCommon,
  authRoot,
  checkCaptcha,
  refusePhone,
  required,
  sessionFor,
  signInCallOf,
  targetOf,
} from '../auth-call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';

const nothing = z.object({});

/** Answers alike and in the same time whoever has the address: one row is written, and the rest happens afterwards. */
const request = async (call: AuthCall, order: MailOrder): Promise<z.output<typeof nothing>> => {
  const { deps, project } = call;
  await requireMailRoom(deps.endUsers, signInCallOf(call, project));
  await deps.endUsers.mails.require(project);
  await deps.endUsers.mails.request(project, order);
  deps.endUserMails.wake();
  return {};
};

const otp = (path: '/otp' | '/magiclink', summary: string): Endpoint =>
  endpoint({
    ...authCommon,
    method: 'post',
    path: `${authRoot}${path}`,
    summary,
    query: redirectQuery,
    body: otpBody,
    response: nothing,
    handle: async ({ query, body }, call) => {
      refusePhone(body.phone);
      const email = requireAddress(required(body.email, 'email'));
      await checkCaptcha(call, body);
      const data = body.data ?? {};
      requireStorable(data);
      const { signup } = await call.deps.endUsers.settings.of(call.project.id);
      const mayCreate = signup === 'open' && body.create_user !== false;
      const target = await targetOf(call, query.redirect_to, body);
      return request(call, { kind: 'magiclink', email, ...target, ...(mayCreate && { create: { data } }) });
    },
  });

const session = authSession.partial().extend({ msg: z.string().optional(), code: z.int().optional() });

const halfDone = {
  msg: 'Confirmed. Open the link that was sent to the other address, too.',
  // A number here: nobody reads an error code from an answer that is none.
  code: 200,
};

const use = (call: AuthCall, body: z.output<typeof verifyBody>): Promise<UsedLink> => {
  const { project, deps } = call;
  refusePhone(body.phone);
  if (body.token_hash) return takeLink(deps.endUsers, project.id, body.token_hash, body.type);
  const given = { email: required(body.email, 'email'), code: required(body.token, 'token'), type: body.type };
  return takeCode(deps.endUsers, project, given);
};

/** Links and codes in mails, as supabase-js asks for and uses them. */
export const authLinkEndpoints: readonly Endpoint[] = [
  endpoint({
    ...authCommon,
    method: 'post',
    path: `${authRoot}/recover`,
    summary: 'Mail a link to somebody who forgot the password; answers alike for unknown addresses',
    query: redirectQuery,
    body: recoverBody,
    response: nothing,
    handle: async ({ query, body }, call) => {
      refusePhone(body.phone);
      const email = requireAddress(required(body.email, 'email'));
      await checkCaptcha(call, body);
      return request(call, { kind: 'recovery', email, ...(await targetOf(call, query.redirect_to, body)) });
    },
  }),
  otp('/otp', 'Mail a link and a code that sign in; answers alike for unknown addresses'),
  otp('/magiclink', 'The same as otp, for older clients'),
  endpoint({
    ...authCommon,
    method: 'post',
    path: `${authRoot}/resend`,
    summary: 'Mail the link of a sign-up or of a new address once more; answers alike for unknown addresses',
    query: redirectQuery,
    body: resendBody,
    response: nothing,
    handle: async ({ query, body }, call) => {
      refusePhone(body.phone);
      const { type } = body;
      if (type !== 'signup' && type !== 'email_change') {
        throw new AuthError('phone_provider_disabled', 'Signing in by phone is not offered here.');
      }
      const email = requireAddress(required(body.email, 'email'));
      await checkCaptcha(call, body);
      return request(call, { kind: type, email, ...(await targetOf(call, query.redirect_to, body)) });
    },
  }),
  endpoint({
    ...authCommon,
    method: 'post',
    path: `${authRoot}/verify`,
    summary: 'Use up the link or the code of a mail, and sign in',
    query: redirectQuery,
    body: verifyBody,
    response: session,
    handle: async ({ body }, call) => {
      const used = await use(call, body);
      if (!used.isDone) return halfDone;
      return sessionFor(call, await signInByLink(call.deps.endUsers, signInCallOf(call, call.project), used));
    },
  }),
];
