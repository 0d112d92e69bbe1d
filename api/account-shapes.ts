import { z } from 'zod';
import type { SignedInUser } from '#domain/accounts/accounts.ts';
import { accessTokenSeconds } from '#domain/accounts/sign-ins.ts';
import type { BaseCall } from './call.ts';
import type { Deps } from './deps.ts';
import { id, instant, text } from './fields.ts';

export const accountUser = z.object({ id, email: z.string(), full_name: z.string().nullable(), created_at: instant });

/** The answer to a sign-in. */
export const signedInAnswer = z.object({
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

/** Whether failed attempts are counted. */
export const isLimited = ({ config }: Pick<Deps, 'config'>): boolean => config.PLINTH_RATE_LIMITS === 'on';

/** Where a request to sign in comes from. */
export const requestOf = ({ ip, userAgent, requestId, deps }: BaseCall) => ({
  origin: { ip, userAgent, requestId },
  isLimited: isLimited(deps),
});
