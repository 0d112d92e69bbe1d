import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

/** argon2id with 19 MiB and two passes (OWASP's first recommendation); kept in the PHC string form. */
const memory = 19_456;
const passes = 2;
const parallelism = 1;
const tagLength = 32;

const derive = promisify(argon2);

const base64 = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '');

const tagOf = (password: string, nonce: Buffer): Promise<Buffer> =>
  derive('argon2id', { message: Buffer.from(password), nonce, parallelism, tagLength, memory, passes });

export const hashPassword = async (password: string): Promise<string> => {
  const nonce = randomBytes(16);
  const tag = await tagOf(password, nonce);
  return `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(nonce)}$${base64(tag)}`;
};

// Verified against when the e-mail address is unknown, so that both answers take as long.
const nobodysHash = `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(randomBytes(16))}$${base64(randomBytes(32))}`;

/** @param hash undefined when there is no such user: takes as long, and is false */
export const verifyPassword = async (password: string, hash: string | undefined): Promise<boolean> => {
  const [, , , , nonce = '', tag = ''] = (hash ?? nobodysHash).split('$');
  const made = await tagOf(password, Buffer.from(nonce, 'base64'));
  return timingSafeEqual(made, Buffer.from(tag, 'base64')) && hash !== undefined;
};
