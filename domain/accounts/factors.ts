import { randomBytes } from 'node:crypto';
import { noteAccount } from '#domain/audit/audit.ts';
import type { Actor } from '#domain/audit/actor.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken, newId } from '#lib/ids.ts';
import {
  type FactorDeps,
  type FactorSecret,
  aboutFactor,
  base32,
  checkTotp,
  deleteFactor,
  findFactor,
  markVerified,
  newTotpSecret,
  putFactor,
  putRecoveryCodes,
  totpUri,
  wrongCode,
} from './codes.ts';
import { type Proof, acceptProof, lockProven } from './proof.ts';
import { type User, lockUser } from '#domain/users/users.ts';

const recoveryCodes = 10;
/** 80 bits: their plain hashes stay safe where the database leaks. */
const recoveryBytes = 10;

export interface NewFactor {
  readonly id: string;
  /** Base32, for typing in. */
  readonly secret: string;
  /** For a QR code. */
  readonly uri: string;
}

/**
 * A second factor that counts once it is verified. One that was never verified is replaced. Needs a transaction.
 * @param provenHash of the password that was proven
 * @throws {ServiceError} `conflict` when there is a verified one; `invalid_credentials`
 */
export const createFactor = async ({ db, sealer }: FactorDeps, user: User, provenHash: string): Promise<NewFactor> => {
  await lockProven(db, user.id, provenHash);
  const secret = newTotpSecret();
  const id = newId();
  const secretSealed = sealer.seal(aboutFactor(id), secret.toString('base64'));
  if (!(await putFactor(db, { id, userId: user.id, secretSealed }))) {
    throw new ServiceError('conflict', 'Your account has a second factor already.', { hint: 'Remove that one first.' });
  }
  return { id, secret: base32(secret), uri: totpUri(secret, user.email) };
};

const grouped = (code: string): string => code.match(/.{4}/g)?.join('-') ?? code;

export interface FactorCall {
  readonly user: User;
  readonly factorId: string;
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
 * @returns ten recovery codes, each of which stands in for a code once
 * @throws {ServiceError} `not_found`; `conflict` when it is verified already; `invalid_credentials`
 */
export const verifyFactor = async (
  deps: FactorDeps,
  call: FactorCall & { readonly code: string },
): Promise<readonly string[]> => {
  const factor = await ownFactor(deps, call);
  if (factor.verified_at !== null) throw new ServiceError('conflict', 'This factor is verified already.');
  if (!(await checkTotp(deps, factor, call.code))) throw wrongCode();
  const codes = Array.from({ length: recoveryCodes }, () => base32(randomBytes(recoveryBytes)));
  await markVerified(deps.db, factor.id);
  await putRecoveryCodes(deps.db, call.user.id, codes.map(hashToken));
  await noteAccount(deps.db, call.user.id, { actor: call.actor, action: 'factor.create', targetId: factor.id });
  return codes.map(grouped);
};

/**
 * Removes the factor with its recovery codes. Of one that was never verified no code is checked. Needs a transaction.
 * @throws {ServiceError} `not_found`, `invalid_credentials`
 */
export const removeFactor = async (deps: FactorDeps, call: FactorCall, proof: Proof): Promise<void> => {
  const factor = await ownFactor(deps, call);
  await acceptProof(deps, call.user.id, proof);
  await deleteFactor(deps.db, call.user.id);
  await noteAccount(deps.db, call.user.id, { actor: call.actor, action: 'factor.delete', targetId: factor.id });
};
