import { z } from 'zod';
import type { UserChange, UserOrder } from '#domain/end-users/administration.ts';
import { type EndUserAccount, isBanned } from '#domain/end-users/users.ts';
import { email, id, instant, namedObject, namedBody } from '../fields.ts';

const metadata = z.record(z.string(), z.unknown());

/** A user of the project, as its administration shows it. */
export const shownUser = namedObject('User', {
  id,
  email: z.string().nullable(),
  email_verified: z.boolean(),
  user_metadata: metadata,
  app_metadata: metadata,
  providers: z.array(z.string()),
  is_anonymous: z.boolean(),
  banned_until: instant.nullable(),
  last_sign_in_at: instant.nullable(),
  created_at: instant,
  updated_at: instant,
});

export const shownUserOf = (user: EndUserAccount): z.output<typeof shownUser> => ({
  id: user.id,
  email: user.email,
  email_verified: user.email_confirmed_at !== null,
  user_metadata: user.raw_user_meta_data,
  app_metadata: user.raw_app_meta_data,
  providers: [...new Set(user.identities.map(({ provider }) => provider))],
  is_anonymous: user.is_anonymous,
  banned_until: isBanned(user) ? user.banned_until : null,
  last_sign_in_at: user.last_sign_in_at,
  created_at: user.created_at,
  updated_at: user.updated_at,
});

/** One user with the ways in which they sign in. */
export const shownUserWhole = shownUser.extend({
  invited_at: instant.nullable(),
  has_password: z.boolean(),
  identities: z.array(
    z.object({
      id: z.string(),
      provider: z.string(),
      email: z.string().nullable(),
      created_at: z.string(),
      last_sign_in_at: z.string().nullable(),
    }),
  ),
  factors: z.array(
    z.object({
      id,
      friendly_name: z.string(),
      type: z.literal('totp'),
      status: z.enum(['verified', 'unverified']),
      created_at: z.string(),
    }),
  ),
});

export const shownUserWholeOf = (user: EndUserAccount): z.output<typeof shownUserWhole> => ({
  ...shownUserOf(user),
  invited_at: user.invited_at,
  has_password: user.password_sealed !== null,
  identities: user.identities.map((one) => ({
    id: one.identity_id,
    provider: one.provider,
    email: one.email,
    created_at: one.created_at,
    last_sign_in_at: one.last_sign_in_at,
  })),
  factors: user.factors.map((one) => ({
    id: one.id,
    friendly_name: one.friendly_name,
    type: one.factor_type,
    status: one.status,
    created_at: one.created_at,
  })),
});

const password = z.string().describe('As long as the settings of sign-in say.');
const userMetadata = metadata.describe('The user may change it, and tokens carry it.');
const appMetadata = metadata.describe('Only the project changes it, and tokens carry it: roles, plans.');

export const newUser = namedBody('NewUser', {
  email,
  email_verified: z.boolean().default(true),
  password: password.optional().describe('Left out: the user cannot sign in with a password.'),
  user_metadata: userMetadata.default({}),
  app_metadata: appMetadata.default({}),
});

export const orderOf = (body: z.output<typeof newUser>): UserOrder => ({
  email: body.email,
  emailVerified: body.email_verified,
  password: body.password,
  userMetadata: body.user_metadata,
  appMetadata: body.app_metadata,
});

export const userChange = z.strictObject({
  email: email.optional().describe('Not confirmed unless email_verified is true.'),
  email_verified: z.boolean().optional(),
  password: password.optional().describe('Ends all sign-ins of the user.'),
  user_metadata: userMetadata.optional().describe('Merged; null removes a name.'),
  app_metadata: appMetadata.optional().describe('Merged; null removes a name.'),
});

export const changeOf = (body: z.output<typeof userChange>): UserChange => ({
  email: body.email,
  emailVerified: body.email_verified,
  password: body.password,
  userMetadata: body.user_metadata,
  appMetadata: body.app_metadata,
});

export const shownSession = namedObject('UserSession', {
  id,
  created_at: instant,
  refreshed_at: instant,
  aal: z.int(),
  ip: z.string().nullable(),
  user_agent: z.string().nullable(),
  method: z.string().describe('How it began; impersonation: a member of the team acts as the user.'),
  ends_at: instant.nullable().describe('Null: when the settings of sign-in say so.'),
});
