import { hash, randomBytes, randomInt, randomUUID } from 'node:crypto';

const letters = 'abcdefghijklmnopqrstuvwxyz';
const lettersAndDigits = `${letters}0123456789`;

const randomText = (alphabet: string, length: number): string =>
  Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('');

const maxInOneMs = 0xfff;
let lastMs = 0;
let counter = 0;

/** The next (millisecond, counter): a full millisecond borrows from the next. */
const nextInstant = (): void => {
  const now = Date.now();
  counter = now > lastMs ? 0 : counter + 1;
  if (now > lastMs) lastMs = now;
  if (counter <= maxInOneMs) return;
  lastMs += 1;
  counter = 0;
};

/**
 * A UUIDv7 (RFC 9562): unique, and in order of creation, which keeps index pages dense and a project's jobs in order.
 * Within a millisecond a counter keeps the order (6.2, method 1); Node's own are in no order there.
 */
export const newId = (): string => {
  nextInstant();
  const ms = lastMs.toString(16).padStart(12, '0');
  const place = counter.toString(16).padStart(3, '0');
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7${place}-${randomUUID().slice(19)}`;
};

/** The lowest UUIDv7 of a millisecond: where the ids of a time begin. */
export const firstIdAt = (ms: number): string => {
  const hex = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
};

/**
 * A UUIDv7 that is always the same for that text, so that what is repeated is found.
 * @param ms where it stands in the order of ids
 */
export const derivedId = (ms: number, text: string): string => {
  const bytes = hash('sha256', text, 'buffer');
  bytes.writeUIntBE(Math.floor(ms), 0, 6);
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  const hex = bytes.toString('hex', 0, 16);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
};

/** When a UUIDv7 was made. */
export const msOf = (id: string): number => Number.parseInt(id.replace('-', '').slice(0, 12), 16);

/** 16 lower-case letters and digits, a letter first, so that `plinth_<org_id>_<slug>` fits PostgreSQL's 63 bytes. */
export const newOrgId = (): string => randomText(letters, 1) + randomText(lettersAndDigits, 15);

/** 20 lower-case letters and digits, a letter first: stands in host names and database roles. */
export const newProjectRef = (): string => randomText(letters, 1) + randomText(lettersAndDigits, 19);

/** A secret of 256 bits behind a readable prefix, such as `plinth_at_…`. */
export const newToken = (prefix: string): string => `${prefix}_${randomBytes(32).toString('base64url')}`;

/** How tokens and keys are stored. They hold 256 random bits, so that a plain hash is enough. */
export const hashToken = (token: string): Buffer => hash('sha256', token, 'buffer');
