import { codeAt, stepAt } from '#domain/accounts/codes.ts';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
export const bytesOf = (base32: string): Buffer => {
  const bits = Array.from(base32, (letter) => alphabet.indexOf(letter).toString(2).padStart(5, '0')).join('');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
};

/** The code of an authenticator app, of this time step or the next one, which is taken, too. */
export const codeOf = (secret: string, step = 0): string => codeAt(bytesOf(secret), stepAt(Date.now()) + step);
