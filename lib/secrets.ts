import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/**
 * Secrets at rest: AES-256-GCM. The key ring (from the environment) wraps one data key per project, and the data key
 * seals the project's secrets. What a secret belongs to is its associated data: a sealed value that is moved to another
 * row, column or project does not open.
 *
 * Sealed form: 12 bytes nonce, 16 bytes tag, ciphertext. Wrapped form: 4 bytes key number before that.
 */
const nonceBytes = 12;
const tagBytes = 16;
const keyBytes = 32;

export class SecretError extends Error {
  override readonly name = 'SecretError';
}

const sealBytes = (key: Buffer, about: string, plain: Buffer): Buffer => {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(about));
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]);
};

const openBytes = (key: Buffer, about: string, sealed: Buffer): Buffer => {
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, nonceBytes), { authTagLength: tagBytes });
    decipher.setAAD(Buffer.from(about)).setAuthTag(sealed.subarray(nonceBytes, nonceBytes + tagBytes));
    return Buffer.concat([decipher.update(sealed.subarray(nonceBytes + tagBytes)), decipher.final()]);
  } catch (cause) {
    throw new SecretError(`A secret (${about}) cannot be opened with the keys at hand.`, { cause });
  }
};

/** Seals texts with one project's data key. `about` says what the secret is, e.g. `function:<id>:env`. */
export interface Sealer {
  readonly seal: (about: string, plain: string) => Buffer;
  /** @throws {SecretError} when the value was sealed for something else or was changed */
  readonly open: (about: string, sealed: Buffer) => string;
  /** A key of 32 bytes for one purpose, derived from the data key (HKDF, RFC 5869): the same each time. */
  readonly keyFor: (purpose: string) => Buffer;
}

export interface KeyRing {
  /** A new data key, wrapped for storing. `owner` is the project id. */
  readonly newDataKey: (owner: string) => Buffer;
  /** @throws {SecretError} when no key of the ring fits */
  readonly sealerFor: (owner: string, wrappedDataKey: Buffer) => Sealer;
  /**
   * The same data key, wrapped with the newest key of the ring; null when it is already.
   * @throws {SecretError} when no key of the ring fits
   */
  readonly rewrap: (owner: string, wrappedDataKey: Buffer) => Buffer | null;
  /** The number of the newest key. */
  readonly newest: number;
}

const parseKeys = (ring: string): Map<number, Buffer> => {
  const keys = new Map<number, Buffer>();
  for (const entry of ring.split(',')) {
    const match = /^\s*(\d{1,9}):([A-Za-z0-9+/_=-]+)\s*$/.exec(entry);
    const key = Buffer.from(match?.[2] ?? '', 'base64');
    if (match === null || key.length !== keyBytes) {
      throw new SecretError('must be `<number>:<base64 of 32 bytes>`, several separated by commas');
    }
    const number = Number(match[1]);
    if (keys.has(number)) throw new SecretError(`holds two keys with the number ${number}`);
    keys.set(number, key);
  }
  return keys;
};

const aboutKey = (owner: string): string => `data-key:${owner}`;

/** @throws {SecretError} when the text is not a key ring */
export const openKeyRing = (ring: string): KeyRing => {
  const keys = parseKeys(ring);
  const newest = Math.max(...keys.keys());
  const keyNumbered = (number: number): Buffer => {
    const key = keys.get(number);
    if (key === undefined) throw new SecretError(`Key ${number} is missing from PLINTH_SECRET_KEYS.`);
    return key;
  };
  const wrap = (owner: string, dataKey: Buffer): Buffer => {
    const number = Buffer.alloc(4);
    number.writeUInt32BE(newest);
    return Buffer.concat([number, sealBytes(keyNumbered(newest), aboutKey(owner), dataKey)]);
  };
  const unwrap = (owner: string, wrapped: Buffer): Buffer => {
    if (wrapped.length < 4) throw new SecretError(`The data key of ${owner} is damaged.`);
    return openBytes(keyNumbered(wrapped.readUInt32BE(0)), aboutKey(owner), wrapped.subarray(4));
  };
  return {
    newest,
    newDataKey: (owner) => wrap(owner, randomBytes(keyBytes)),
    rewrap: (owner, wrapped) => {
      const dataKey = unwrap(owner, wrapped);
      return wrapped.readUInt32BE(0) === newest ? null : wrap(owner, dataKey);
    },
    sealerFor: (owner, wrapped) => {
      const dataKey = unwrap(owner, wrapped);
      return {
        seal: (what, plain) => sealBytes(dataKey, `${owner}:${what}`, Buffer.from(plain)),
        open: (what, sealed) => openBytes(dataKey, `${owner}:${what}`, sealed).toString(),
        keyFor: (purpose) => Buffer.from(hkdfSync('sha256', dataKey, '', `${owner}:${purpose}`, keyBytes)),
      };
    },
  };
};
