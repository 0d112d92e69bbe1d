import { createHash, randomBytes, randomInt, randomUUIDv7 } from 'node:crypto';

const letters = 'abcdefghijklmnopqrstuvwxyz';
const lettersAndDigits = `${letters}0123456789`;

const randomText = (alphabet: string, length: number): string =>
  Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('');

/** A UUIDv7: unique, and in order of creation, which keeps index pages dense. */
export const newId = (): string => randomUUIDv7();

/** 16 lower-case letters and digits, a letter first, so that `plinth_<org_id>_<slug>` fits PostgreSQL's 63 bytes. */
export const newOrgId = (): string => randomText(letters, 1) + randomText(lettersAndDigits, 15);

/** 20 lower-case letters and digits, a letter first: stands in host names and database roles. */
export const newProjectRef = (): string => randomText(letters, 1) + randomText(lettersAndDigits, 19);

/** A secret of 256 bits behind a readable prefix, such as `plinth_at_…`. */
export const newToken = (prefix: string): string => `${prefix}_${randomBytes(32).toString('base64url')}`;

/** How tokens and keys are stored. They hold 256 random bits, so that a plain hash is enough. */
export const hashToken = (token: string): Buffer => createHash('sha256').update(token).digest();
