import { hashToken } from '#lib/ids.ts';
import type { AuthDb } from './auth-db.ts';
import type { EndUserDeps, SignInCall } from './end-users.ts';
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

const onConflictSql = `
  on conflict (key) do update set
    number = case when c.began_at < now() - make_interval(secs => $2) then 1 else least(c.number + 1, 100000) end,
    began_at = case when c.began_at < now() - make_interval(secs => $2) then now() else c.began_at end
  returning key, number,
    greatest(1, ceil(extract(epoch from began_at + make_interval(secs => $2) - now())))::int as seconds`;

/** Each count takes some along that are over, so that a stranger's guesses do not pile up until the daily sweep. */
const overSql = (keys: string): string => `
  delete from auth.counts where key in (
    select key from auth.counts where began_at < now() - interval '1 hour' and key <> all (${keys})
    limit 3 for update skip locked)`;

const countSql = `
  with over as (${overSql('array[$1::bytea]')})
  insert into auth.counts as c (key, number) values ($1, 1) ${onConflictSql}`;

/*
 * First the network, $1, and then the address, $3: in the same order everywhere, so that no two statements wait for each
 * other. A network that is over the limit, $4, leaves no further addresses behind.
 */
const attemptSql = `
  with over as (${overSql('array[$1::bytea, $3::bytea]')}),
  network as (insert into auth.counts as c (key, number) values ($1, 1) ${onConflictSql}),
  address as (
    insert into auth.counts as c (key, number) select $3, 1 from network where network.number <= $4 ${onConflictSql})
  select * from network union all select * from address`;

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
  const counted = await db.secrets<Counted>(projectId, attemptSql, [keys[1], windowSeconds, keys[0], maxOfNetwork]);
  const over = counted.find(({ key, number }) => number > (key.equals(keys[0]) ? maxOfEmail : maxOfNetwork));
  if (over === undefined) return { keys };
  throw new AuthError('over_request_rate_limit', 'Too many failed attempts to sign in.', {
    hint: `Try again in ${over.seconds} s.`,
    headers: { 'Retry-After': String(over.seconds) },
  });
};

/** Forgets the failures for the address, as a sign-in does, and gives the network its try back. */
export const forgetAttempt = async (db: AuthDb, projectId: string, { keys }: Attempt): Promise<void> => {
  if (keys === null) return;
  await db.secrets(projectId, 'update auth.counts set number = greatest(number - 1, 0) where key = $1', [keys[1]]);
  await db.secrets(projectId, 'delete from auth.counts where key = $1', [keys[0]]);
};

const hourSeconds = 3600;
/** Mails to one address within an hour: a stranger who asks again and again must not fill somebody's mailbox. */
const maxMails = 5;

/** Counts a mail to an address. @returns whether it may be sent */
export const countMail = async (db: AuthDb, projectId: string, email: string, isLimited: boolean): Promise<boolean> => {
  if (!isLimited) return true;
  const [counted] = await db.secrets<Counted>(projectId, countSql, [hashToken(`mail ${email}`), hourSeconds]);
  return (counted?.number ?? 0) <= maxMails;
};

/**
 * Requests of one network within an hour that leave something behind: a user without an address, a user with one, a mail.
 * A server that signs its visitors up is one network, too: so the last two are many.
 */
const maxPerHour = { anonymous: 30, signup: 300, mail: 300 } as const;

/** @throws {AuthError} `over_request_rate_limit` beyond so many of one network in an hour */
export const countOfNetwork = async (
  db: AuthDb,
  projectId: string,
  { kind, network }: { readonly kind: keyof typeof maxPerHour; readonly network: string },
  isLimited: boolean,
): Promise<void> => {
  if (!isLimited) return;
  const [counted] = await db.secrets<Counted>(projectId, countSql, [hashToken(`${kind} ${network}`), hourSeconds]);
  if (counted === undefined || counted.number <= maxPerHour[kind]) return;
  throw new AuthError('over_request_rate_limit', 'Too many requests of this kind came from this network.', {
    hint: `Try again in ${counted.seconds} s.`,
    headers: { 'Retry-After': String(counted.seconds) },
  });
};

/** @throws {AuthError} `over_request_rate_limit` after 300 requests for mails of one network in an hour */
export const requireMailRoom = (
  { authDb, isLimited }: Pick<EndUserDeps, 'authDb' | 'isLimited'>,
  { project, origin }: Pick<SignInCall, 'project' | 'origin'>,
): Promise<void> => countOfNetwork(authDb, project.id, { kind: 'mail', network: origin.network }, isLimited);

const keyOfCodes = (userId: string): Buffer => hashToken(`codes ${userId}`);
/** Wrong codes of a user's factors within 15 minutes. */
const maxCodes = 10;

/** Counts a code before it is judged. @throws {AuthError} `over_request_rate_limit` */
export const countCode = async (db: AuthDb, projectId: string, userId: string, isLimited: boolean): Promise<void> => {
  if (!isLimited) return;
  const [counted] = await db.secrets<Counted>(projectId, countSql, [keyOfCodes(userId), windowSeconds]);
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
