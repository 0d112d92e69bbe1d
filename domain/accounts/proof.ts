import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { beginAttempt, beginCodeAttempt } from './attempts.ts';
import { type FactorDeps, takeCode, wrongCode } from './codes.ts';
import { findFactor } from './factor-store.ts';
import { verifyPassword } from './passwords.ts';
import { type User, findUserWithPassword, lockUser } from './store.ts';

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
