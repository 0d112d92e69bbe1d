import { randomBytes } from 'node:crypto';
import { noteAccount } from '#domain/audit/accounts.ts';
import type { Actor } from '#domain/audit/actor.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken, newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import {
  type FactorSecret,
  deleteFactor,
  findFactor,
  markVerified,
  noteStep,
  putFactor,
  putRecoveryCodes,
  takeRecoveryCode,
} from './factor-store.ts';
import { type User, lockUser } from './store.ts';
import { base32, newTotpSecret, stepOfCode, totpUri } from './totp.ts';

const recoveryCodes = 10;
/** 80 bits: their plain hashes stay safe where the database leaks. */
const recoveryBytes = 10;

const aboutFactor = (id: string): string => `factor:${id}`;

/** Dependencies of checking factors. */
export interface FactorDeps {
  readonly db: Queryable;
  /** Opens the platform's own secrets. */
  readonly sealer: Sealer;
}

export interface NewFactor {
  readonly id: string;
  /** Base32, for typing in. */
  readonly secret: string;
  /** For a QR code. */
  readonly uri: string;
}

/**
 * A second factor that counts once it is verified. One that was never verified is replaced. Needs a transaction.
 * @throws {ServiceError} `conflict` when there is a verified one
 */
export const createFactor = async ({ db, sealer }: FactorDeps, user: User): Promise<NewFactor> => {
  const secret = newTotpSecret();
  const id = newId();
  const secretSealed = sealer.seal(aboutFactor(id), secret.toString('base64'));
  if (!(await putFactor(db, { id, userId: user.id, secretSealed }))) {
    throw new ServiceError('conflict', 'Your account has a second factor already.', { hint: 'Remove that one first.' });
  }
  return { id, secret: base32(secret), uri: totpUri(secret, user.email) };
};

const isTotp = /^\d{6}$/;

const typed = (code: string): string => code.replaceAll(/[\s-]/g, '').toUpperCase();

const checkTotp = async ({ db, sealer }: FactorDeps, factor: FactorSecret, code: string): Promise<boolean> => {
  const secret = Buffer.from(sealer.open(aboutFactor(factor.id), factor.secret_sealed), 'base64');
  const step = stepOfCode(secret, typed(code), { now: Date.now(), lastStep: factor.last_step });
  if (step === undefined) return false;
  await noteStep(db, factor.id, step);
  return true;
};

/** How a second factor was shown. */
export type FactorMethod = 'totp' | 'recovery_code';

/**
 * Takes a code of the user's verified factor, or a recovery code; each works once. The user must be locked.
 * @returns undefined when it is none
 */
export const takeCode = async (deps: FactorDeps, userId: string, code: string): Promise<FactorMethod | undefined> => {
  const factor = await findFactor(deps.db, userId);
  if (factor === undefined || factor.verified_at === null) return undefined;
  if (isTotp.test(typed(code))) return (await checkTotp(deps, factor, code)) ? 'totp' : undefined;
  return (await takeRecoveryCode(deps.db, userId, hashToken(typed(code)))) ? 'recovery_code' : undefined;
};

const grouped = (code: string): string => code.match(/.{4}/g)?.join('-') ?? code;

export interface FactorCall {
  readonly user: User;
  readonly factorId: string;
  readonly code: string;
  readonly actor: Actor;
}

const ownFactor = async ({ db }: FactorDeps, { user, factorId }: FactorCall): Promise<FactorSecret> => {
  await lockUser(db, user.id);
  const factor = await findFactor(db, user.id);
  if (factor?.id !== factorId) throw notFound('factor');
  return factor;
};

/**
 * Proves that the user has the factor; from now on it is asked for at each sign-in. Needs a transaction.
 * @returns ten recovery codes, each of which stands in for a code once; undefined when the code is wrong
 * @throws {ServiceError} `not_found`; `conflict` when it is verified already
 */
export const verifyFactor = async (deps: FactorDeps, call: FactorCall): Promise<readonly string[] | undefined> => {
  const factor = await ownFactor(deps, call);
  if (factor.verified_at !== null) throw new ServiceError('conflict', 'This factor is verified already.');
  if (!(await checkTotp(deps, factor, call.code))) return undefined;
  const codes = Array.from({ length: recoveryCodes }, () => base32(randomBytes(recoveryBytes)));
  await markVerified(deps.db, factor.id);
  await putRecoveryCodes(deps.db, call.user.id, codes.map(hashToken));
  await noteAccount(deps.db, call.user.id, { actor: call.actor, action: 'factor.create', targetId: factor.id });
  return codes.map(grouped);
};

/**
 * Removes the factor with its recovery codes. One that was never verified asks for no code. Needs a transaction.
 * @returns false: the code is wrong
 * @throws {ServiceError} `not_found`
 */
export const removeFactor = async (deps: FactorDeps, call: FactorCall): Promise<boolean> => {
  const factor = await ownFactor(deps, call);
  if (factor.verified_at !== null && (await takeCode(deps, call.user.id, call.code)) === undefined) return false;
  await deleteFactor(deps.db, call.user.id);
  await noteAccount(deps.db, call.user.id, { actor: call.actor, action: 'factor.delete', targetId: factor.id });
  return true;
};
