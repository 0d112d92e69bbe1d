import { z } from 'zod';
import { AuthError } from '#domain/end-users/errors.ts';
import { challengeFactor, enrolFactor, removeOwnFactor, verifyFactor } from '#domain/end-users/factors.ts';
import { authSession, authSessionOf } from '#api/shapes/auth.ts';
import { authByUser, authCommon, authRoot, required, signInCallOf, userOf } from '../auth-call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id } from '../fields.ts';

const root = `${authRoot}/factors`;
const common = { ...authCommon, access: authByUser } as const;
const factorParams = z.object({ ref: z.string(), factor_id: id });

const oneLine = z
  .string()
  .max(100)
  .refine((text) => text.isWellFormed() && !/\p{Cc}/u.test(text), { error: 'must be one line' });

/** Second factors, as supabase-js sets them up and asks for them. */
export const authFactorEndpoints: readonly Endpoint[] = [
  endpoint({
    ...common,
    method: 'post',
    path: root,
    summary: 'Set up an authenticator app as second factor; it counts once a code was verified',
    body: z.object({ factor_type: z.string(), friendly_name: oneLine.nullish(), issuer: oneLine.nullish() }),
    response: z.object({
      id,
      type: z.literal('totp'),
      friendly_name: z.string(),
      totp: z.object({ qr_code: z.string().describe('SVG.'), secret: z.string(), uri: z.string() }),
    }),
    handle: async ({ body }, call) => {
      if (body.factor_type !== 'totp') throw new AuthError('validation_failed', 'The factor_type must be totp.');
      const given = { friendlyName: body.friendly_name ?? '', issuer: body.issuer || undefined };
      const factor = await enrolFactor(call.deps.endUsers, call.project, userOf(call), given);
      return {
        id: factor.id,
        type: 'totp' as const,
        friendly_name: factor.friendlyName,
        totp: { qr_code: factor.qrCode, secret: factor.secret, uri: factor.uri },
      };
    },
  }),
  endpoint({
    ...common,
    method: 'post',
    path: `${root}/{factor_id}/challenge`,
    summary: 'Ask for a code of a factor',
    params: factorParams,
    body: z.object({}),
    response: z.object({ id, type: z.literal('totp'), expires_at: z.int().describe('Seconds since 1970.') }),
    handle: async ({ params }, call) => {
      const challenge = await challengeFactor(call.deps.endUsers, call.project.id, userOf(call), params.factor_id);
      return {
        id: challenge.id,
        type: 'totp' as const,
        expires_at: Math.floor(challenge.expiresAt.getTime() / 1000),
      };
    },
  }),
  endpoint({
    ...common,
    method: 'post',
    path: `${root}/{factor_id}/verify`,
    summary: 'Answer with a code: new tokens, of a sign-in with two factors',
    params: factorParams,
    body: z.object({ challenge_id: id, code: z.string().max(40).nullish() }),
    response: authSession,
    handle: async ({ params, body }, call) => {
      const given = { factorId: params.factor_id, challengeId: body.challenge_id, code: required(body.code, 'code') };
      const { endUsers } = call.deps;
      return authSessionOf(await verifyFactor(endUsers, signInCallOf(call, call.project), userOf(call), given));
    },
  }),
  endpoint({
    ...common,
    method: 'delete',
    path: `${root}/{factor_id}`,
    summary: 'Remove a factor; one that counts only in a sign-in with two factors',
    params: factorParams,
    status: 200,
    response: z.object({ id }),
    handle: async ({ params }, call) => {
      await removeOwnFactor(call.deps.endUsers, call.project.id, userOf(call), params.factor_id);
      return { id: params.factor_id };
    },
  }),
];
