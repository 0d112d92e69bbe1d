import { z } from 'zod';
import type { SignedInUser } from '#domain/accounts/accounts.ts';
import type { FactorDeps } from '#domain/accounts/codes.ts';
import { accessTokenSeconds } from '#domain/accounts/sign-ins.ts';
import type { BaseCall } from '#api/call.ts';
import type { Deps } from '#api/deps.ts';
import { id, instant, namedObject, text } from '#api/fields.ts';

export const accountUser = namedObject('Account', {
  id,
  email: z.string(),
  full_name: z.string().nullable(),
  created_at: instant,
});

/** The answer to a sign-in. */
export const signedInAnswer = namedObject('SignedIn', {
  access_token: z.string(),
  token_type: z.literal('Bearer'),
  expires_in: z.int().describe('Seconds.'),
  refresh_token: z.string(),
  user: accountUser,
});

export const signedInAs = ({ user, tokens }: SignedInUser): z.output<typeof signedInAnswer> => ({
  ...tokens,
  token_type: 'Bearer',
  expires_in: accessTokenSeconds,
  user,
});

export const password = text(128, 8).describe('8 to 128 characters.');

/** Proves that the holder of the access token is the user. */
export const presentPassword = text(128).describe('The present password of the account.');

export const code = text(40, 1).describe('Six digits of the authenticator app, or a recovery code.');

export const factorDepsOf = ({ db, deps }: Pick<BaseCall, 'db' | 'deps'>): FactorDeps => ({ db, sealer: deps.sealer });

/** Whether failed attempts are counted. */
export const isLimited = ({ config }: Pick<Deps, 'config'>): boolean => config.PLINTH_RATE_LIMITS === 'on';

/** Where a request to sign in comes from. */
export const requestOf = ({ ip, userAgent, requestId, deps }: BaseCall) => ({
  origin: { ip, userAgent, requestId },
  isLimited: isLimited(deps),
});
