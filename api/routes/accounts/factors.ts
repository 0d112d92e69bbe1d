import { z } from 'zod';
import { logInWithFactor } from '#domain/accounts/accounts.ts';
import { type Attempt, beginCodeAttempt, beginProof, provePassword } from '#domain/accounts/proof.ts';
import { countRecoveryCodes, findFactor } from '#domain/accounts/codes.ts';
import { tokenForm } from '#domain/accounts/sign-ins.ts';
import { createFactor, removeFactor, verifyFactor } from '#domain/accounts/factors.ts';
import { type SignedIn, everyone, signedIn } from '../../access.ts';
import {
  code,
  factorDepsOf,
  isLimited,
  presentPassword,
  requestOf,
  signedInAnswer,
  signedInAs,
} from '#api/shapes/accounts.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, namedObject, shownOnce, text } from '../../fields.ts';

const area = 'accounts';

const factorPath = z.object({ id });

const factor = namedObject('Factor', {
  id,
  type: z.literal('totp'),
  created_at: instant,
  verified_at: instant.nullable().describe('Null: it is not asked for yet.'),
});

/** Counted outside the transaction, which a wrong code rolls back. */
const attempt = (_input: unknown, { deps, user }: Call<SignedIn>): Promise<Attempt> =>
  beginCodeAttempt(deps.db, user.email, isLimited(deps));

/** The second factor (contract, section 8). */
export const factorEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/auth/factors',
    area,
    summary: 'Your second factor, and how many recovery codes are left',
    access: signedIn,
    response: z.object({ factors: z.array(factor), total: z.int(), recovery_codes_left: z.int() }),
    handle: async (_input, { db, user }) => {
      const found = await findFactor(db, user.id);
      const factors = found ? [{ ...found, type: 'totp' as const }] : [];
      return { factors, total: factors.length, recovery_codes_left: await countRecoveryCodes(db, user.id) };
    },
  }),
  endpoint({
    method: 'post',
    path: '/auth/factors',
    area,
    summary: 'Begin with a second factor (TOTP); it counts once it is verified',
    access: signedIn,
    body: z.strictObject({ password: presentPassword }),
    status: 201,
    response: z.object({
      id,
      secret: shownOnce(z.string()).describe('Base32, to type in.'),
      uri: shownOnce(z.string()).describe('To show as a QR code.'),
    }),
    prepare: ({ body }, { deps, user }) =>
      provePassword(deps.db, user, { password: body.password, isLimited: isLimited(deps) }),
    handle: ({ prepared }, call) => createFactor(factorDepsOf(call), call.user, prepared),
  }),
  endpoint({
    method: 'post',
    path: '/auth/factors/{id}/verify',
    area,
    summary: 'Verify the second factor with a code; from then on each sign-in asks for one',
    access: signedIn,
    params: factorPath,
    body: z.strictObject({ code }),
    response: z.object({
      recovery_codes: shownOnce(z.array(z.string())).describe('Ten. Each works once in the place of a code.'),
    }),
    prepare: attempt,
    handle: async ({ params, body, prepared }, call) => {
      const of = { user: call.user, factorId: params.id, code: body.code, actor: call.actor };
      const codes = await verifyFactor(factorDepsOf(call), of);
      call.afterCommit(prepared.clear);
      return { recovery_codes: [...codes] };
    },
  }),
  endpoint({
    method: 'delete',
    path: '/auth/factors/{id}',
    area,
    summary: 'Remove the second factor, with the password and a code or a recovery code',
    access: signedIn,
    params: factorPath,
    body: z.strictObject({ password: presentPassword, code }),
    prepare: ({ body }, { deps, user }) => beginProof(deps.db, user, { ...body, isLimited: isLimited(deps) }),
    handle: async ({ params, prepared }, call) => {
      await removeFactor(factorDepsOf(call), { user: call.user, factorId: params.id, actor: call.actor }, prepared);
      call.afterCommit(prepared.settle);
    },
  }),
  endpoint({
    method: 'post',
    path: '/auth/login/factor',
    area,
    summary: 'Finish a sign-in that asked for the second factor',
    access: everyone,
    rate: 'sign-in',
    transaction: 'none',
    body: z.strictObject({ factor_token: text(200), code }),
    response: signedInAnswer,
    handle: async ({ body }, call) =>
      signedInAs(
        await logInWithFactor(
          call.deps,
          { factorToken: body.factor_token, code: body.code },
          {
            ...requestOf(call),
            form: tokenForm,
          },
        ),
      ),
  }),
];
