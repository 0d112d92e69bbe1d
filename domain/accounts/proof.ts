import { type ControlDb, type Queryable, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken } from '#lib/ids.ts';
import { type FactorDeps, findFactor, takeCode, wrongCode } from './codes.ts';
import { verifyPassword } from './passwords.ts';
import { type User, findUserWithPassword, lockUser } from '#domain/users/users.ts';

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
         failures = case when f.began_at < now() - make_interval(mins => $2) then 1
           else least(f.failures + 1, 1000) end,
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

const wrongPassword = (): ServiceError => new ServiceError('invalid_credentials', 'The password is wrong.');

/**
 * Proves that the holder of the access token knows the password, too.
 * @param db not a transaction: what fails stays counted
 * @returns the hash that was checked; the change is refused when it is another one by then
 * @throws {ServiceError} `invalid_credentials`, `rate_limited`
 */
export const provePassword = async (
  db: ControlDb,
  user: User,
  { password, isLimited }: { readonly password: string; readonly isLimited: boolean },
): Promise<string> => {
  const attempt = await beginAttempt(db, user.email, isLimited);
  const found = await findUserWithPassword(db, user.id);
  if (!(await verifyPassword(password, found?.password_hash)) || found === undefined) throw wrongPassword();
  // Not cleared: who knows the password could forget the failures of guessing codes.
  await attempt.refund();
  return found.password_hash;
};

/** @throws {ServiceError} `invalid_credentials` when the password was changed meanwhile */
export const lockProven = async (db: Queryable, userId: string, provenHash: string): Promise<void> => {
  await lockUser(db, userId);
  if ((await findUserWithPassword(db, userId))?.password_hash !== provenHash) throw wrongPassword();
};

/**
 * Proves that the holder of an access token is the user (decision 045): the password was proven, and a code is to be
 * checked where the account has a second factor.
 */
export interface Proof {
  readonly provenHash: string;
  readonly code: string | undefined;
  /** Forgets that codes were wrong. To be called once the change is committed. */
  readonly settle: () => Promise<void>;
}

/**
 * Proves the password and counts the try of a code, before the transaction of the change.
 * @param db not a transaction: what fails stays counted
 * @throws {ServiceError} `invalid_credentials`, `rate_limited`
 */
export const beginProof = async (
  db: ControlDb,
  user: User,
  given: { readonly password: string; readonly code?: string | undefined; readonly isLimited: boolean },
): Promise<Proof> => {
  const { code, isLimited } = given;
  const provenHash = await provePassword(db, user, given);
  const attempt = await beginCodeAttempt(db, user.email, isLimited && code !== undefined);
  return { provenHash, code, settle: attempt.clear };
};

/**
 * Checks the proof, and takes the code, within the transaction of the change.
 * @throws {ServiceError} `invalid_credentials`; `factor_required` when the account has a second factor and no code came
 */
export const acceptProof = async (deps: FactorDeps, userId: string, { provenHash, code }: Proof): Promise<void> => {
  await lockProven(deps.db, userId, provenHash);
  const factor = await findFactor(deps.db, userId);
  if (!factor?.verified_at) return;
  if (code === undefined) {
    throw new ServiceError('factor_required', 'This change asks for a code of your second factor.', {
      hint: 'Send it as code, beside the password.',
    });
  }
  if ((await takeCode(deps, userId, code)) === undefined) throw wrongCode();
};
