import { z } from 'zod';
import {
  type ProfileChange,
  changeProfile,
  confirmEmail,
  deleteAccount,
  prepareNewPassword,
  sendConfirmation,
} from '#domain/accounts/profile.ts';
import { beginProof } from '#domain/accounts/proof.ts';
import { endOtherSessions, endSession, listSessions } from '#domain/accounts/sign-ins.ts';
import { findProfile } from '#domain/accounts/store.ts';
import { ServiceError } from '#lib/errors.ts';
import { type SignedIn, everyone, signedIn, signedInWith } from '../../access.ts';
import { accountUser, code, factorDepsOf, isLimited, password, presentPassword } from '#api/shapes/accounts.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { email, id, instant, name, namedObject, page, text } from '../../fields.ts';
import { finishDeletions } from '../../project-deletion.ts';

const area = 'accounts';

const confirmation = z.object({
  email: z.string(),
  email_confirmed: z.boolean(),
  pending_email: z.string().nullable().describe('Becomes the address once the link that was mailed there is opened.'),
});

const session = namedObject('Session', {
  id,
  kind: z.string(),
  current: z.boolean(),
  created_at: instant,
  last_seen_at: instant.describe('When it was begun or last renewed.'),
  ip: z.string().nullable(),
  user_agent: z.string().nullable(),
});

const codeOfFactor = code
  .optional()
  .describe('Needed where the account has a second factor: a code or a recovery code.');

const changes = z.strictObject({
  full_name: name.nullish(),
  password: z
    .strictObject({ old: text(128), new: password })
    .optional()
    .describe('Ends all other sign-ins.'),
  email: email.optional().describe('A new one needs the present password.'),
  current_password: presentPassword.optional().describe('For a new address; password.old does as well.'),
  code: codeOfFactor,
});

type Changes = z.output<typeof changes>;

const passwordFor = ({ current_password: current, password: renewed }: Changes): string => {
  const present = current ?? renewed?.old;
  if (present !== undefined) return present;
  throw new ServiceError('validation_failed', 'A new e-mail address needs the present password.', {
    details: [{ path: 'current_password', message: 'is needed to change the e-mail address' }],
  });
};

/** Proves and computes, before the transaction, all that the change needs. The present address is no change. */
const prepareChange = async (
  { body }: { readonly body: Changes },
  { deps, user }: Call<SignedIn>,
): Promise<ProfileChange> => {
  const limited = isLimited(deps);
  const { email: address, password: renewed, code: given } = body;
  const isMove = address !== undefined && address !== user.email;
  const proof = isMove
    ? await beginProof(deps.db, user, { password: passwordFor(body), code: given, isLimited: limited })
    : undefined;
  return {
    fullName: body.full_name,
    email: isMove && proof ? { address, proof } : undefined,
    password:
      renewed && (await prepareNewPassword(deps.db, user, { old: renewed.old, next: renewed.new, isLimited: limited })),
  };
};

/** The own account and its sign-ins (contract, sections 8 and 13). */
export const profileEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/auth/me',
    area,
    summary: 'The signed-in user',
    access: signedInWith('read'),
    response: accountUser,
    handle: (_input, { user }) => Promise.resolve(user),
  }),
  endpoint({
    method: 'patch',
    path: '/auth/me',
    area,
    summary: 'Change name, password or e-mail address; a new address counts once its link is opened',
    access: signedIn,
    body: changes,
    response: accountUser,
    prepare: prepareChange,
    handle: async ({ prepared }, call) => {
      const changed = await changeProfile({ ...factorDepsOf(call), mail: call.deps.mail }, call, prepared);
      if (prepared.email) call.afterCommit(prepared.email.proof.settle);
      return changed;
    },
  }),
  endpoint({
    method: 'delete',
    path: '/auth/me',
    area,
    summary: 'Delete the account, and the organizations that nobody else is a member of',
    access: signedIn,
    body: z.strictObject({ password: presentPassword, code: codeOfFactor }),
    prepare: ({ body }, { deps, user }) => beginProof(deps.db, user, { ...body, isLimited: isLimited(deps) }),
    handle: async ({ prepared }, call) => {
      const projects = await deleteAccount(factorDepsOf(call), call.user, { proof: prepared, actor: call.actor });
      call.afterCommit(prepared.settle);
      call.afterCommit(() => finishDeletions(call.deps, projects));
    },
  }),
  endpoint({
    method: 'get',
    path: '/auth/confirmation',
    area,
    summary: 'Whether your e-mail address is confirmed, and which one waits to be',
    access: signedIn,
    response: confirmation,
    handle: (_input, { db, user }) => findProfile(db, user.id),
  }),
  endpoint({
    method: 'post',
    path: '/auth/confirmation',
    area,
    summary: 'Send a link to confirm your e-mail address',
    access: signedIn,
    status: 202,
    response: z.object({ status: z.literal('accepted') }),
    handle: async (_input, { db, deps, user }) => {
      await sendConfirmation(db, deps.mail, user);
      return { status: 'accepted' as const };
    },
  }),
  endpoint({
    method: 'post',
    path: '/auth/confirm',
    area,
    summary: 'Confirm an e-mail address with the token of its link',
    access: everyone,
    rate: 'sign-in',
    body: z.strictObject({ token: text(200) }),
    response: z.object({ email: z.string() }),
    handle: async ({ body }, { db, deps, actor }) => ({
      email: await confirmEmail(db, deps.mail, body.token, actor),
    }),
  }),
];

/** The own sign-ins (contract, section 13). */
export const sessionEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/auth/sessions',
    area,
    summary: 'Your sign-ins that can still be used',
    access: signedIn,
    query: page,
    response: z.object({ sessions: z.array(session), total: z.int() }),
    handle: ({ query }, { db, user, signInId }) => listSessions(db, { userId: user.id, signInId }, query),
  }),
  endpoint({
    method: 'delete',
    path: '/auth/sessions',
    area,
    summary: 'End all your other sign-ins',
    access: signedIn,
    handle: (_input, { db, user, signInId }) => endOtherSessions(db, { userId: user.id, signInId }),
  }),
  endpoint({
    method: 'delete',
    path: '/auth/sessions/{id}',
    area,
    summary: 'End one of your sign-ins',
    access: signedIn,
    params: z.object({ id }),
    handle: ({ params }, { db, user, actor }) => endSession(db, { userId: user.id, id: params.id, actor }),
  }),
];
