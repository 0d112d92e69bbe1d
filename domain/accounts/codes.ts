import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type FactorSecret, findFactor, noteStep, takeRecoveryCode } from './factor-store.ts';
import { stepOfCode } from './totp.ts';

/** Binds the sealed secret to its factor. */
export const aboutFactor = (id: string): string => `factor:${id}`;

/** Dependencies of checking factors. */
export interface FactorDeps {
  readonly db: Queryable;
  /** Opens the platform's own secrets. */
  readonly sealer: Sealer;
}

export const wrongCode = (): ServiceError =>
  new ServiceError('invalid_credentials', 'The code is wrong, or was used before.', {
    hint: 'Wait for the next one; the clock of your device must be right.',
  });

const isTotp = /^\d{6}$/;

const typed = (code: string): string => code.replaceAll(/[\s-]/g, '').toUpperCase();

/** Takes a code of an authenticator app; each works once. The user must be locked. */
export const checkTotp = async ({ db, sealer }: FactorDeps, factor: FactorSecret, code: string): Promise<boolean> => {
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
