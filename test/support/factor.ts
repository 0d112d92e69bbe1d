import { codeAt, stepAt } from '#domain/accounts/codes.ts';
import type { TestUser } from './client.ts';
import type { TestPlatform } from './platform.ts';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

const bytesOf = (base32: string): Buffer => {
  const bits = Array.from(base32, (letter) => alphabet.indexOf(letter).toString(2).padStart(5, '0')).join('');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
};

/** The code that an authenticator app shows now. */
export const codeNow = (secret: string): string => codeAt(bytesOf(secret), stepAt(Date.now()));

/** A code that is not valid now. */
export const wrongCode = (secret: string): string => {
  const present = stepAt(Date.now());
  const near = new Set([-2, -1, 0, 1, 2].map((step) => codeAt(bytesOf(secret), present + step)));
  return ['000000', '111111', '222222', '333333', '444444', '555555'].find((code) => !near.has(code)) ?? '';
};

/** A user's second factor. */
export interface TestFactor {
  readonly id: string;
  readonly secret: string;
  readonly recoveryCodes: readonly string[];
}

/** As if time had passed: the code that was used last may be used again. */
export const forgetStep = async ({ db }: Pick<TestPlatform, 'db'>, userId: string): Promise<void> => {
  await db.query('update user_factors set last_step = null where user_id = $1', [userId]);
};

/** As if the link that confirms the user's address had been opened. */
export const confirmAddress = async ({ db }: Pick<TestPlatform, 'db'>, userId: string): Promise<void> => {
  await db.query('update users set email_confirmed_at = now() where id = $1', [userId]);
};

/** A verified second factor, whose present code can be used. */
export const addFactor = async (
  platform: Pick<TestPlatform, 'db' | 'client'>,
  { id: userId, token, password }: TestUser,
): Promise<TestFactor> => {
  const { client } = platform;
  const { body: made } = await client.call('POST', '/auth/factors', { token, body: { password } });
  const verified = await client.call('POST', `/auth/factors/${made.id}/verify`, {
    token,
    body: { code: codeNow(made.secret) },
  });
  if (verified.status !== 200) throw new Error(verified.text);
  await forgetStep(platform, userId);
  return { id: made.id, secret: made.secret, recoveryCodes: verified.body.recovery_codes };
};
