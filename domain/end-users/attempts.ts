import { hashToken } from '#lib/ids.ts';
import type { AuthDb } from './auth-db.ts';
import { AuthError } from './errors.ts';

const windowSeconds = 15 * 60;
/** Failures within the window, of all networks for one e-mail address. */
const maxOfEmail = 10;
/** Failures within the window, of one network for all addresses. */
const maxOfNetwork = 50;

const keyOfEmail = (email: string): Buffer => hashToken(`email ${email}`);
const keyOfNetwork = (network: string): Buffer => hashToken(`network ${network}`);

interface Counted {
  readonly key: Buffer;
  readonly number: number;
  readonly seconds: number;
}

/** In the order of the keys, so that two at once do not wait for each other. */
const countSql = `
  insert into auth.counts as c (key, number) select k, 1 from unnest($1::bytea[]) k order by k
  on conflict (key) do update set
    number = case when c.began_at < now() - make_interval(secs => $2) then 1 else least(c.number + 1, 100000) end,
    began_at = case when c.began_at < now() - make_interval(secs => $2) then now() else c.began_at end
  returning key, number,
    greatest(1, ceil(extract(epoch from began_at + make_interval(secs => $2) - now())))::int as seconds`;

export interface AttemptBy {
  readonly email: string;
  /** The addresses that one caller controls. */
  readonly network: string;
}

/** One try to sign in with a password, which counts as failed until it says otherwise. */
export interface Attempt {
  /** The keys to forget with the sign-in: of the address, and of the network, which gets one back. */
  readonly keys: readonly [Buffer, Buffer] | null;
}

const notCounted: Attempt = { keys: null };

/**
 * Counts a try before it is made, so that tries at the same moment cannot pass the limit together. Unknown addresses
 * count as known ones do.
 * @param isLimited false with `PLINTH_RATE_LIMITS=off`
 * @throws {AuthError} `over_request_rate_limit` after 10 failures for the address, or 50 of the network, in 15 minutes
 */
export const beginAttempt = async (
  db: AuthDb,
  projectId: string,
  by: AttemptBy,
  isLimited: boolean,
): Promise<Attempt> => {
  if (!isLimited) return notCounted;
  const keys = [keyOfEmail(by.email), keyOfNetwork(by.network)] as const;
  const counted = await db.secrets<Counted>(projectId, countSql, [keys, windowSeconds]);
  const over = counted.find(({ key, number }) => number > (key.equals(keys[0]) ? maxOfEmail : maxOfNetwork));
  if (over === undefined) return { keys };
  throw new AuthError('over_request_rate_limit', 'Too many failed attempts to sign in.', {
    hint: `Try again in ${over.seconds} s.`,
    headers: { 'Retry-After': String(over.seconds) },
  });
};

const hourSeconds = 3600;
/** Mails to one address within an hour: a stranger who asks again and again must not fill somebody's mailbox. */
const maxMails = 5;

/** Counts a mail to an address. @returns whether it may be sent */
export const countMail = async (db: AuthDb, projectId: string, email: string, isLimited: boolean): Promise<boolean> => {
  if (!isLimited) return true;
  const [counted] = await db.secrets<Counted>(projectId, countSql, [[hashToken(`mail ${email}`)], hourSeconds]);
  return (counted?.number ?? 0) <= maxMails;
};

/** Users without an address that one network makes within an hour. */
const maxAnonymous = 30;

/** @throws {AuthError} `over_request_rate_limit` after 30 of one network in an hour */
export const countAnonymous = async (
  db: AuthDb,
  projectId: string,
  network: string,
  isLimited: boolean,
): Promise<void> => {
  if (!isLimited) return;
  const [counted] = await db.secrets<Counted>(projectId, countSql, [[hashToken(`anonymous ${network}`)], hourSeconds]);
  if (counted === undefined || counted.number <= maxAnonymous) return;
  throw new AuthError('over_request_rate_limit', 'Too many users were made from this network.', {
    hint: `Try again in ${counted.seconds} s.`,
    headers: { 'Retry-After': String(counted.seconds) },
  });
};

const keyOfCodes = (userId: string): Buffer => hashToken(`codes ${userId}`);
/** Wrong codes of a user's factors within 15 minutes. */
const maxCodes = 10;

/** Counts a code before it is judged. @throws {AuthError} `over_request_rate_limit` */
export const countCode = async (db: AuthDb, projectId: string, userId: string, isLimited: boolean): Promise<void> => {
  if (!isLimited) return;
  const [counted] = await db.secrets<Counted>(projectId, countSql, [[keyOfCodes(userId)], windowSeconds]);
  if (counted === undefined || counted.number <= maxCodes) return;
  throw new AuthError('over_request_rate_limit', 'Too many wrong codes.', {
    hint: `Try again in ${counted.seconds} s.`,
    headers: { 'Retry-After': String(counted.seconds) },
  });
};

/** Forgets the wrong codes of a user, after a right one. */
export const clearCount = async (db: AuthDb, projectId: string, userId: string): Promise<void> => {
  await db.secrets(projectId, 'delete from auth.counts where key = $1', [keyOfCodes(userId)]);
};
