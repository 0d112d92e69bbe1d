import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import { z } from 'zod';
import { isAddress } from '#domain/email/address.ts';
import { newId } from '#lib/ids.ts';
import type { BytesReader } from '#lib/json-thread.ts';
import { elementsOf } from './import-elements.ts';
import { parseForeignHash } from './foreign-hashes.ts';
import { isStorable, normalEmail } from './users.ts';

/*
 * Reads the body of an import of users: up to 50 MB of JSON, which becomes sealed parts. It is run by the threads of
 * `lib/json-parser.ts`, and takes one user at a time, so that the heap never holds more than a user and the parts.
 */

/** A user to be imported, as a part holds it. */
export interface ImportedUser {
  /** Its place in the request. */
  readonly index: number;
  readonly id: string;
  readonly email: string;
  readonly isVerified: boolean;
  readonly passwordHash: string | null;
  readonly userMetadata: Readonly<Record<string, unknown>>;
  readonly appMetadata: Readonly<Record<string, unknown>>;
  readonly createdAt: string | null;
  readonly bannedUntil: string | null;
}

/** A user who cannot be imported. */
export interface ImportFault {
  readonly index: number;
  readonly code: string;
}

/** JSON texts of `ImportedUser[]`, and how many users the request holds. */
export interface ReadImport {
  readonly total: number;
  readonly parts: readonly Uint8Array[];
  readonly faults: readonly ImportFault[];
  readonly failed: number;
  /** SHA-256 of the body, for idempotency. */
  readonly digest: string;
}

/** A body that is refused whole. */
export interface RefusedImport {
  readonly refusal: { readonly code: 'invalid_json' | 'validation_failed'; readonly message: string };
}

export const maxImportedUsers = 100_000;
/** More are only counted: the result of a job may have 1 MB. */
export const maxListedFaults = 1000;
/** One statement inserts so many users in some 30 ms. */
const usersOfPart = 250;
const maxUserBytes = 32 * 1024;

const metadata = z.record(z.string(), z.unknown()).refine(isStorable);
const instant = z.iso.datetime({ offset: true });

export const importedUser = z.strictObject({
  id: z.uuid().optional().describe('Kept, so that rows which refer to the user stay right; left out: a new one.'),
  email: z.string().max(320),
  email_verified: z.boolean().default(false),
  password_hash: z
    .string()
    .max(1024)
    .optional()
    .describe('bcrypt, argon2, scrypt, PBKDF2 or Firebase’s scrypt; replaced at the first sign-in.'),
  user_metadata: metadata.default({}),
  app_metadata: metadata.default({}),
  created_at: instant.optional(),
  banned_until: instant.nullable().default(null),
});

const codeOf = ({ path: [field] }: z.core.$ZodIssue): string =>
  field === 'email' ? 'email_address_invalid' : 'validation_failed';

/** The user at an index, or why there is none. */
const readUser = (text: string, index: number): ImportedUser | ImportFault => {
  const { success, data, error } = importedUser.safeParse(JSON.parse(text));
  if (!success) return { index, code: error.issues[0] ? codeOf(error.issues[0]) : 'validation_failed' };
  const email = normalEmail(data.email);
  if (!isAddress(email)) return { index, code: 'email_address_invalid' };
  const { password_hash: passwordHash = null } = data;
  if (passwordHash !== null && parseForeignHash(passwordHash) === null) return { index, code: 'hash_not_supported' };
  return {
    index,
    id: data.id ?? newId(),
    email,
    isVerified: data.email_verified,
    passwordHash,
    userMetadata: data.user_metadata,
    appMetadata: data.app_metadata,
    createdAt: data.created_at ?? null,
    bannedUntil: data.banned_until,
  };
};

const refused = (code: RefusedImport['refusal']['code'], message: string): { readonly value: RefusedImport } => ({
  value: { refusal: { code, message } },
});

const notThatForm = 'The body must be {"users": [ … ]} and hold nothing else.';

/** Collects users into parts. */
const createParts = () => {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let open: ImportedUser[] = [];
  const close = (): void => {
    if (open.length > 0) parts.push(new TextEncoder().encode(JSON.stringify(open)));
    open = [];
  };
  return {
    add: (user: ImportedUser): void => {
      open.push(user);
      if (open.length === usersOfPart) close();
    },
    close: () => {
      close();
      return parts;
    },
  };
};

/** Answers a `ReadImport`, or a `RefusedImport`. @throws {SyntaxError} when an element is not JSON */
const readAll = (bytes: Buffer) => {
  const elements = elementsOf(bytes);
  if (elements === null || elements.length === 0) return refused('validation_failed', notThatForm);
  if (elements.length > maxImportedUsers) {
    return refused('validation_failed', `One import has at most ${maxImportedUsers} users.`);
  }
  const parts = createParts();
  const faults: ImportFault[] = [];
  let failed = 0;
  for (const [index, { start, end }] of elements.entries()) {
    const read =
      end - start > maxUserBytes
        ? { index, code: 'payload_too_large' }
        : readUser(bytes.toString('utf8', start, end), index);
    if (!('code' in read)) parts.add(read);
    else if ((failed += 1) <= maxListedFaults) faults.push(read);
  }
  const texts = parts.close();
  const value: ReadImport = { total: elements.length, parts: texts, faults, failed, digest: hash('sha256', bytes) };
  return { value, transfer: texts.map(({ buffer }) => buffer) };
};

/** Answers a `ReadImport`, or a `RefusedImport` when the body is not one. */
export const importReader: BytesReader = (bytes) => {
  if (!isUtf8(bytes)) return refused('invalid_json', 'The body is not UTF-8.');
  try {
    return readAll(bytes);
  } catch (error) {
    if (error instanceof SyntaxError) return refused('invalid_json', 'The body is not JSON.');
    throw error;
  }
};
