import { z } from 'zod';
import {
  type Administrator,
  type UserChange,
  createUser,
  deleteUser,
  listUsers,
  removeFactor,
  requireUser,
  updateUser,
} from '#domain/end-users/administration.ts';
import { AuthError } from '#domain/end-users/errors.ts';
import { generateLink, inviteUser } from '#domain/end-users/invites.ts';
import { redirectFor } from '#domain/end-users/redirects.ts';
import { authFactor, authUser, authUserOf, redirectQuery } from '#api/shapes/auth.ts';
import { authRoot, required } from '../auth-call.ts';
import { withKey } from '../access.ts';
import type { BaseCall, KeyCall } from '../call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id } from '../fields.ts';

const root = `${authRoot}/admin/users`;
const ref = z.object({ ref: z.string() });
const userParams = z.object({ ref: z.string(), uid: id });

const common = { area: 'auth', access: withKey('secret'), rate: 'data', errors: 'auth', transaction: 'none' } as const;

const administrator = ({ deps, db, project, actor, key }: BaseCall & KeyCall): Administrator => ({
  deps: deps.endUsers,
  db,
  project,
  actor: { ...actor, type: 'key', id: key.id },
});

const metadata = z.record(z.string(), z.unknown());
const optionalText = z.string().max(4096).nullish();

/** supabase-js sends fields that differ from version to version: unknown ones are ignored. */
const adminBody = z.object({
  id: id.optional().describe('Of a new user; left out: one is made.'),
  email: optionalText,
  phone: optionalText,
  password: optionalText,
  email_confirm: z.boolean().nullish(),
  user_metadata: metadata.nullish(),
  app_metadata: metadata.nullish(),
  ban_duration: z.string().max(100).nullish().describe('Such as `24h` or `1h30m`; `none` ends a ban.'),
  role: z.string().nullish(),
});
type AdminBody = z.output<typeof adminBody>;

const unitMs: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 };
const durationForm = /^(?:\d+(?:\.\d+)?(?:h|ms|m|s))+$/;
/** A hundred years. */
const maxBanMs = 100 * 365 * 86_400_000;

/** @throws {AuthError} `validation_failed` */
const banUntil = (duration: string | null | undefined): Date | null | undefined => {
  if (!duration) return undefined;
  if (duration === 'none') return null;
  const parts = durationForm.test(duration) ? [...duration.matchAll(/([\d.]+)(h|ms|m|s)/g)] : [];
  const ms = parts.reduce((sum, [, number, unit = '']) => sum + Number(number) * (unitMs[unit] ?? 0), 0);
  if (ms > 0 && ms <= maxBanMs) return new Date(Date.now() + ms);
  throw new AuthError('validation_failed', 'The ban_duration must be a time such as 24h or 1h30m, or none.');
};

const refuseUnknown = ({ phone, role }: AdminBody): void => {
  if (phone) throw new AuthError('phone_provider_disabled', 'Signing in by phone is not offered here.');
  if (!role || role === 'authenticated') return;
  throw new AuthError(
    'validation_failed',
    'The role of a user is authenticated; app_metadata is for roles of your own.',
  );
};

const changeOf = (body: AdminBody): UserChange => ({
  email: body.email ?? undefined,
  emailVerified: body.email_confirm ?? undefined,
  password: body.password ?? undefined,
  userMetadata: body.user_metadata ?? undefined,
  appMetadata: body.app_metadata ?? undefined,
  bannedUntil: banUntil(body.ban_duration),
});

/** `page` and `per_page` are empty where the client leaves them out. */
const number = (fallback: number, max: number) =>
  z.preprocess((value) => (value === '' || value === undefined ? fallback : Number(value)), z.int().min(1).max(max));

const linkOf = (path: string, { page, last, size }: { page: number; last: number; size: number }): string => {
  const to = (target: number, rel: string): string => `<${path}?page=${target}&per_page=${size}>; rel="${rel}"`;
  return [...(page < last ? [to(page + 1, 'next')] : []), to(last, 'last')].join(', ');
};

const redirectOf = async (
  { deps, project }: BaseCall & KeyCall,
  ...wanted: readonly (string | null | undefined)[]
): Promise<string | null> => {
  const given = wanted.find((one) => typeof one === 'string' && one !== '');
  return redirectFor(await deps.endUsers.settings.of(project.id), given);
};

const handedLink = authUser.extend({
  action_link: z.string(),
  email_otp: z.string(),
  hashed_token: z.string(),
  redirect_to: z.string(),
  verification_type: z.string(),
});

/** Administration of users with a secret key, as supabase-js calls it. */
export const authAdminEndpoints: readonly Endpoint[] = [
  endpoint({
    ...common,
    method: 'get',
    path: root,
    summary: 'The users of the project, the newest first',
    params: ref,
    query: z.object({ page: number(1, 100_000), per_page: number(50, 1000) }),
    response: z.object({ users: z.array(authUser), aud: z.literal('authenticated') }),
    handle: async ({ params, query: { page, per_page: size } }, { deps, project, setHeader }) => {
      const query = { limit: size, offset: (page - 1) * size };
      const { users, total } = await listUsers(deps.endUsers, project.id, query);
      const last = Math.max(1, Math.ceil(total / size));
      setHeader('X-Total-Count', String(total));
      setHeader('Link', linkOf(`/p/${params.ref}/auth/v1/admin/users`, { page, last, size }));
      return { users: users.map(authUserOf), aud: 'authenticated' as const };
    },
  }),
  endpoint({
    ...common,
    method: 'post',
    path: root,
    summary: 'Make a user, whose address is confirmed where the body says so',
    params: ref,
    body: adminBody,
    response: authUser,
    handle: async ({ body }, call) => {
      refuseUnknown(body);
      if (!body.email) throw new AuthError('validation_failed', 'The field email is missing.');
      const user = await createUser(administrator(call), {
        id: body.id,
        email: body.email,
        emailVerified: body.email_confirm ?? false,
        password: body.password ?? undefined,
        userMetadata: body.user_metadata ?? {},
        appMetadata: body.app_metadata ?? {},
        bannedUntil: banUntil(body.ban_duration),
      });
      return authUserOf(user);
    },
  }),
  endpoint({
    ...common,
    method: 'get',
    path: `${root}/{uid}`,
    summary: 'One user of the project',
    params: userParams,
    response: authUser,
    handle: async ({ params: { uid } }, { deps, project }) =>
      authUserOf(await requireUser(deps.endUsers, project.id, uid)),
  }),
  endpoint({
    ...common,
    method: 'put',
    path: `${root}/{uid}`,
    summary: 'Change a user; what is left out stays, and a new password ends their sign-ins',
    params: userParams,
    body: adminBody,
    response: authUser,
    handle: async ({ params: { uid }, body }, call) => {
      refuseUnknown(body);
      return authUserOf(await updateUser(administrator(call), uid, changeOf(body)));
    },
  }),
  endpoint({
    ...common,
    method: 'delete',
    path: `${root}/{uid}`,
    summary: 'Delete a user, with the rows that refer to them on delete cascade',
    params: userParams,
    body: z.object({ should_soft_delete: z.boolean().nullish() }),
    status: 200,
    response: authUser,
    handle: async ({ params: { uid }, body }, call) => {
      if (body.should_soft_delete === true) {
        throw new AuthError('validation_failed', 'Users are deleted for good: leave should_soft_delete out.', {
          hint: 'Ban the user to keep the row.',
        });
      }
      return authUserOf(await deleteUser(administrator(call), uid));
    },
  }),
  endpoint({
    ...common,
    method: 'get',
    path: `${root}/{uid}/factors`,
    summary: 'The second factors of a user',
    params: userParams,
    response: z.array(authFactor),
    handle: async ({ params: { uid } }, { deps, project }) => [
      ...(await requireUser(deps.endUsers, project.id, uid)).factors,
    ],
  }),
  endpoint({
    ...common,
    method: 'delete',
    path: `${root}/{uid}/factors/{factor_id}`,
    summary: 'Remove a second factor that a user has lost',
    params: userParams.extend({ factor_id: id }),
    status: 200,
    response: z.object({ id }),
    handle: async ({ params: { uid, factor_id: factorId } }, call) => {
      await removeFactor(administrator(call), uid, factorId);
      return { id: factorId };
    },
  }),
  endpoint({
    ...common,
    method: 'post',
    path: `${authRoot}/invite`,
    summary: 'Make a user without a password and mail an invitation',
    params: ref,
    query: redirectQuery,
    body: z.object({ email: optionalText, data: metadata.nullish() }),
    response: authUser,
    handle: async ({ query, body }, call) => {
      const invitation = { email: required(body.email, 'email'), userMetadata: body.data ?? {} };
      const redirectTo = await redirectOf(call, query.redirect_to);
      const user = await inviteUser(administrator(call), invitation, redirectTo);
      call.deps.endUserMails.wake();
      return authUserOf(user);
    },
  }),
  endpoint({
    ...common,
    method: 'post',
    path: `${authRoot}/admin/generate_link`,
    summary: 'Make a link of a mail and hand it out, for projects that send it themselves',
    params: ref,
    query: redirectQuery,
    body: z.object({
      type: z.enum(['signup', 'invite', 'magiclink', 'recovery', 'email_change_current', 'email_change_new']),
      email: optionalText,
      new_email: optionalText,
      password: optionalText,
      data: metadata.nullish(),
      redirect_to: optionalText,
      redirectTo: optionalText,
    }),
    response: handedLink,
    handle: async ({ query, body }, call) => {
      const link = await generateLink(administrator(call), {
        kind: body.type,
        email: required(body.email, 'email'),
        newEmail: body.new_email ?? undefined,
        password: body.password ?? undefined,
        userMetadata: body.data ?? {},
        redirectTo: await redirectOf(call, query.redirect_to, body.redirect_to, body.redirectTo),
      });
      return {
        ...authUserOf(link.user),
        action_link: link.url,
        email_otp: link.code,
        hashed_token: link.token,
        redirect_to: link.redirectTo ?? '',
        verification_type: link.type,
      };
    },
  }),
];
