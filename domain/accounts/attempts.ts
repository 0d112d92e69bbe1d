import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken } from '#lib/ids.ts';

const maxFailures = 10;
const windowMinutes = 15;

/** One try to prove who one is, which counts as failed until it says otherwise. */
export interface Attempt {
  /** It neither failed nor is it the end: the right password before a second factor. */
  readonly refund: () => Promise<void>;
  /** The user was recognized: earlier failures are forgotten. */
  readonly clear: () => Promise<void>;
}

const nothing: Attempt = { refund: () => Promise.resolve(), clear: () => Promise.resolve() };

const accountOf = (email: string): Buffer => hashToken(email.toLowerCase());

/** No address has a space. */
const codesOf = (email: string): Buffer => hashToken(`codes ${email.toLowerCase()}`);

const forget = async (db: Queryable, account: Buffer): Promise<void> => {
  await db.query('delete from sign_in_failures where account = $1', [account]);
};

/**
 * Forgets the failures of an account, as when its password was reset by mail. The number of wrong codes stays: a reader
 * of the user's mail could reset the password again and again, and guess ten codes each time.
 */
export const clearFailures = (db: Queryable, email: string): Promise<void> => forget(db, accountOf(email));

interface Counted {
  readonly failures: number;
  readonly seconds: number;
}

const count = async (db: Queryable, account: Buffer): Promise<Attempt> => {
  const { failures, seconds } = await one(
    db.query<Counted>(
      `insert into sign_in_failures as f (account, failures, began_at) values ($1, 1, now())
       on conflict (account) do update set
         failures = case when f.began_at < now() - make_interval(mins => $2) then 1 else least(f.failures + 1, 1000) end,
         began_at = case when f.began_at < now() - make_interval(mins => $2) then now() else f.began_at end
       returning failures,
         greatest(1, ceil(extract(epoch from began_at + make_interval(mins => $2) - now())))::int as seconds`,
      [account, windowMinutes],
      'begin-attempt',
    ),
  );
  if (failures > maxFailures) {
    throw new ServiceError('rate_limited', 'Too many failed attempts to sign in to this account.', {
      hint: `Try again in ${seconds} s, or reset the password.`,
      headers: { 'Retry-After': String(seconds) },
    });
  }
  return {
    refund: async () => {
      await db.query('update sign_in_failures set failures = greatest(failures - 1, 0) where account = $1', [account]);
    },
    clear: () => forget(db, account),
  };
};

/**
 * Counts a try before it is made, so that tries at the same moment cannot pass the limit together. Unknown addresses
 * are counted as known ones are.
 * @param db not a transaction that a failure rolls back
 * @param isLimited false with `PLINTH_RATE_LIMITS=off`
 * @throws {ServiceError} `rate_limited` after ten failures within 15 minutes
 */
export const beginAttempt = async (db: Queryable, email: string, isLimited: boolean): Promise<Attempt> =>
  isLimited ? count(db, accountOf(email)) : nothing;

/**
 * As `beginAttempt`, for a code of the second factor: wrong codes are also counted by themselves, which no reset of the
 * password forgets.
 * @throws {ServiceError} `rate_limited`
 */
export const beginCodeAttempt = async (db: Queryable, email: string, isLimited: boolean): Promise<Attempt> => {
  if (!isLimited) return nothing;
  const attempts = [await count(db, accountOf(email)), await count(db, codesOf(email))];
  return {
    refund: async () => {
      for (const attempt of attempts) await attempt.refund();
    },
    clear: async () => {
      for (const attempt of attempts) await attempt.clear();
    },
  };
};

/** Removes counts whose time is over, a bounded number at a time. */
export const sweepFailures = async (db: Queryable): Promise<void> => {
  await db.query(
    `delete from sign_in_failures where account = any (array(
       select account from sign_in_failures where began_at < now() - make_interval(mins => $1)
       limit 5000 for update skip locked))`,
    [windowMinutes],
  );
};
