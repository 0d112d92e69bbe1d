import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { promisify } from 'node:util';
import { ServiceError } from '#lib/errors.ts';
import { createFairPermits } from '#lib/fair-permits.ts';

interface Cost {
  /** KiB. */
  readonly memory: number;
  readonly passes: number;
  readonly parallelism: number;
}

interface Hash extends Cost {
  readonly nonce: Buffer;
  readonly tag: Buffer;
}

/** 19 MiB and two passes: OWASP's first recommendation for argon2id. */
const cost: Cost = { memory: 19_456, passes: 2, parallelism: 1 };
const nonceLength = 16;
const tagLength = 32;

const derive = promisify(argon2);

export const tooManyPasswords = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'Too many passwords are being checked just now. Try again shortly.', {
    headers: { 'Retry-After': '5' },
  });

const maxAtOnce = Math.max(1, Math.min(2, Math.floor(availableParallelism() / 2)));
const maxWaitMs = 30_000;
// Some 10 s of work for one thread.
const maxWaiting = 500;

/**
 * Passwords share libuv's four threads with every file, DNS and WebCrypto call of the process, new Postgres connections
 * (SCRAM) among them. Fifty sign-ups at once, unlimited, kept those waiting for 3.5 s on two cores, and requests that
 * had nothing to do with passwords got 503. One or two at a time leave room, in threads and in cores. Each project's
 * users, and the platform's own, wait among themselves.
 */
const threads = createFairPermits({
  total: maxAtOnce,
  each: maxAtOnce,
  maxWaiting,
  waitMs: maxWaitMs,
  refusal: tooManyPasswords,
});

/** The users of the platform itself, as those of projects are named by the project's id. */
const ownUsers = 'platform';

const tagOf = async (
  password: string,
  { memory, passes, parallelism, nonce, tag }: Hash,
  group: string,
): Promise<Buffer> => {
  const message = Buffer.from(password);
  await threads.acquire(group);
  try {
    return await derive('argon2id', { message, nonce, parallelism, tagLength: tag.length, memory, passes });
  } finally {
    threads.release(group);
  }
};

const base64 = (bytes: Buffer): string => bytes.toString('base64').replaceAll('=', '');

const format = ({ memory, passes, parallelism, nonce, tag }: Hash): string =>
  `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(nonce)}$${base64(tag)}`;

const phc = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([\w+/]+)\$([\w+/]+)$/;

const parse = (hash: string): Hash => {
  const [whole, memory, passes, parallelism, nonce = '', tag = ''] = phc.exec(hash) ?? [];
  if (whole === undefined) throw new Error('a stored password hash is not in the PHC form of argon2id');
  return {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    nonce: Buffer.from(nonce, 'base64'),
    tag: Buffer.from(tag, 'base64'),
  };
};

const newHash = (): Hash => ({ ...cost, nonce: randomBytes(nonceLength), tag: randomBytes(tagLength) });

/**
 * The PHC string of argon2id, which carries its own cost: hashes made at another cost stay valid.
 * @param group the project whose user it is; left out: a user of the platform
 * @throws {ServiceError} `dependency_unavailable` when too many passwords of the group wait
 */
export const hashPassword = async (password: string, group = ownUsers): Promise<string> => {
  const hash = newHash();
  return format({ ...hash, tag: await tagOf(password, hash, group) });
};

const ownForm = `$argon2id$v=19$m=${cost.memory},t=${cost.passes},p=${cost.parallelism}$`;

/** Whether a hash is of the form and cost that passwords have here. */
export const isOwnForm = (hash: string): boolean => hash.startsWith(ownForm);

// Verified against when the e-mail address is unknown, so that both answers take as long.
const nobodysHash = format(newHash());

/**
 * @param hash undefined when there is no such user: takes as long, and is false
 * @param group as for `hashPassword`
 * @throws {ServiceError} `dependency_unavailable` when too many passwords of the group wait
 */
export const verifyPassword = async (
  password: string,
  hash: string | undefined,
  group = ownUsers,
): Promise<boolean> => {
  const stored = parse(hash ?? nobodysHash);
  const made = await tagOf(password, stored, group);
  return timingSafeEqual(made, stored.tag) && hash !== undefined;
};
