import { z } from 'zod';
import { linkTypes } from '#domain/end-users/links.ts';
import type { SignedIn } from '#domain/end-users/sessions.ts';
import type { EndUserAccount } from '#domain/end-users/users.ts';
import { id, instant, namedObject } from '../fields.ts';

/*
 * The bodies that supabase-js sends to `auth/v1` and reads from it (auth-js 2.119, `GoTrueClient.ts`). They carry fields
 * that differ from version to version, so unknown ones are ignored here and nowhere else.
 */

const metadata = z.record(z.string(), z.unknown());

const identity = namedObject('AuthIdentity', {
  identity_id: id,
  id: z.string(),
  user_id: id,
  provider: z.string(),
  identity_data: metadata,
  email: z.string().nullable(),
  created_at: z.string(),
  updated_at: z.string(),
  last_sign_in_at: z.string().nullable(),
});

export const authFactor = namedObject('AuthFactor', {
  id,
  friendly_name: z.string(),
  factor_type: z.literal('totp'),
  status: z.enum(['verified', 'unverified']),
  created_at: z.string(),
  updated_at: z.string(),
  last_challenged_at: z.string().nullable(),
});

/** A user, as clients of `auth/v1` read it. */
export const authUser = namedObject('AuthUser', {
  id,
  aud: z.literal('authenticated'),
  role: z.literal('authenticated'),
  email: z.string().nullable(),
  email_confirmed_at: instant.nullable(),
  confirmed_at: instant.nullable(),
  new_email: z.string().optional().describe('An address that waits to be confirmed.'),
  phone: z.literal(''),
  last_sign_in_at: instant.nullable(),
  app_metadata: metadata,
  user_metadata: metadata,
  identities: z.array(identity),
  factors: z.array(authFactor),
  is_anonymous: z.boolean(),
  invited_at: instant.nullable(),
  banned_until: instant.nullable(),
  created_at: instant,
  updated_at: instant,
});

export const authUserOf = (user: EndUserAccount): z.output<typeof authUser> => ({
  id: user.id,
  aud: 'authenticated',
  role: 'authenticated',
  email: user.email,
  email_confirmed_at: user.email_confirmed_at,
  confirmed_at: user.email_confirmed_at,
  ...(user.new_email !== null && { new_email: user.new_email }),
  phone: '',
  last_sign_in_at: user.last_sign_in_at,
  app_metadata: user.raw_app_meta_data,
  user_metadata: user.raw_user_meta_data,
  identities: [...user.identities],
  factors: [...user.factors],
  is_anonymous: user.is_anonymous,
  invited_at: user.invited_at,
  banned_until: user.banned_until,
  created_at: user.created_at,
  updated_at: user.updated_at,
});

/** The tokens of a sign-in. */
export const authSession = namedObject('AuthSession', {
  access_token: z.string(),
  token_type: z.literal('bearer'),
  expires_in: z.int().describe('Seconds.'),
  expires_at: z.int().describe('Seconds since 1970.'),
  refresh_token: z.string(),
  user: authUser,
});

export const authSessionOf = (signedIn: SignedIn): z.output<typeof authSession> => ({
  access_token: signedIn.accessToken,
  token_type: 'bearer',
  expires_in: signedIn.expiresIn,
  expires_at: signedIn.expiresAt,
  refresh_token: signedIn.refreshToken,
  user: authUserOf(signedIn.user),
});

const optionalText = z.string().max(4096).nullish();

const challenge = {
  code_challenge: optionalText.describe('PKCE: the link then leads back with a code for `grant_type=pkce`.'),
  code_challenge_method: optionalText,
};

/** As auth-js sends what its options name. */
const meta = {
  gotrue_meta_security: z.object({ captcha_token: optionalText }).nullish().describe('The answer to a captcha.'),
};

export const signUpBody = z.object({
  ...meta,
  ...challenge,
  email: optionalText,
  phone: optionalText,
  password: optionalText,
  data: metadata.nullish().describe('`user_metadata` of the new user.'),
});

export const tokenBody = z.object({
  ...meta,
  auth_code: optionalText.describe('With grant_type=pkce.'),
  code_verifier: optionalText.describe('With grant_type=pkce.'),
  email: optionalText.describe('With grant_type=password.'),
  phone: optionalText,
  password: optionalText.describe('With grant_type=password.'),
  refresh_token: optionalText.describe('With grant_type=refresh_token.'),
});

export const updateUserBody = z.object({
  ...challenge,
  email: optionalText,
  phone: optionalText,
  password: optionalText,
  current_password: optionalText.describe('Needed for a new password once the sign-in is older than a day.'),
  nonce: z
    .string()
    .max(40)
    .nullish()
    .describe('The code that `reauthenticate` mailed, in place of `current_password`.'),
  data: metadata.nullish().describe('Merged into `user_metadata`; null removes a name.'),
});

/** Where a link leads to; what the settings do not allow leads to the site. */
export const redirectQuery = z.object({ redirect_to: z.string().max(4096).optional() });

export const recoverBody = z.object({ ...meta, ...challenge, email: optionalText, phone: optionalText });

export const otpBody = z.object({
  ...meta,
  ...challenge,
  email: optionalText,
  phone: optionalText,
  create_user: z.boolean().nullish().describe('Left out: a user is made when nobody has the address.'),
  data: metadata.nullish().describe('`user_metadata` of a new user.'),
});

export const resendBody = z.object({
  ...meta,
  ...challenge,
  type: z.enum(['signup', 'email_change', 'sms', 'phone_change']),
  email: optionalText,
  phone: optionalText,
});

export const verifyBody = z.object({
  type: z.enum(linkTypes),
  token_hash: optionalText.describe('The token of the link.'),
  token: optionalText.describe('The six digits, with `email`.'),
  email: optionalText,
  phone: optionalText,
});
