import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';

/** Time-based one-time passwords (RFC 6238) as authenticator apps make them: SHA-1, six digits, steps of 30 s. */
const stepSeconds = 30;
const usualDigits = 6;
/** RFC 4226, section 4, recommends 160 bits. */
const secretBytes = 20;
/** Steps to either side: clocks differ, and people type. */
const drift = 1;

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** RFC 4648, without padding, which authenticator apps do not want. */
export const base32 = (bytes: Buffer): string => {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return (bits.match(/.{1,5}/g) ?? []).map((group) => alphabet[Number.parseInt(group.padEnd(5, '0'), 2)]).join('');
};

export const newTotpSecret = (): Buffer => randomBytes(secretBytes);

/** The time step of a moment. */
export const stepAt = (ms: number): number => Math.floor(ms / 1000 / stepSeconds);

/** The code of a time step (RFC 4226, section 5.3). */
export const codeAt = (secret: Buffer, step: number, digits = usualDigits): string => {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', secret).update(counter).digest();
  const offset = mac.readUInt8(mac.length - 1) & 0xf;
  const number = (mac.readUInt32BE(offset) & 0x7fffffff) % 10 ** digits;
  return String(number).padStart(digits, '0');
};

/**
 * The time step whose code this is, among those near to now that lie behind the one that was used last: a code works
 * once.
 * @param lastStep null: none was used
 */
export const stepOfCode = (
  secret: Buffer,
  code: string,
  { now, lastStep }: { readonly now: number; readonly lastStep: number | null },
): number | undefined => {
  const present = stepAt(now);
  const given = Buffer.from(code);
  for (let step = present - drift; step <= present + drift; step += 1) {
    const expected = Buffer.from(codeAt(secret, step));
    const isSame = expected.length === given.length && timingSafeEqual(expected, given);
    if (isSame && (lastStep === null || step > lastStep)) return step;
  }
  return undefined;
};

/** The URI that authenticator apps read from a QR code. */
export const totpUri = (secret: Buffer, account: string, issuer = 'plinth'): string =>
  `otpauth://totp/${encodeURIComponent(issuer)}:${encodeURIComponent(account)}?secret=${base32(secret)}` +
  `&issuer=${encodeURIComponent(issuer)}&algorithm=SHA1&digits=${usualDigits}&period=${stepSeconds}`;

interface Factor {
  readonly id: string;
  readonly created_at: Date;
  /** Null: it does not count yet. */
  readonly verified_at: Date | null;
}

export interface FactorSecret extends Factor {
  readonly secret_sealed: Buffer;
  readonly last_step: number | null;
}

const columns = 'id, created_at, verified_at, secret_sealed, last_step';

export const findFactor = (db: Queryable, userId: string): Promise<FactorSecret | undefined> =>
  maybeOne(db.query(`select ${columns} from user_factors where user_id = $1`, [userId], 'find-factor'));

/** In the place of one that was never verified. @returns false: there is a verified one */
export const putFactor = async (
  db: Queryable,
  factor: { readonly id: string; readonly userId: string; readonly secretSealed: Buffer },
): Promise<boolean> => {
  const rows = await db.query(
    `insert into user_factors as f (id, user_id, secret_sealed) values ($1, $2, $3)
     on conflict (user_id) do update set id = excluded.id, secret_sealed = excluded.secret_sealed, last_step = null,
       created_at = now()
     where f.verified_at is null returning id`,
    [factor.id, factor.userId, factor.secretSealed],
  );
  return rows.length > 0;
};

const noteStep = async (db: Queryable, id: string, step: number): Promise<void> => {
  await db.query('update user_factors set last_step = $2 where id = $1', [id, step]);
};

export const markVerified = async (db: Queryable, id: string): Promise<void> => {
  await db.query('update user_factors set verified_at = now() where id = $1', [id]);
};

export const deleteFactor = async (db: Queryable, userId: string): Promise<void> => {
  await db.query('delete from user_factors where user_id = $1', [userId]);
  await db.query('delete from recovery_codes where user_id = $1', [userId]);
  await db.query('delete from factor_challenges where user_id = $1', [userId]);
};

export const putRecoveryCodes = async (db: Queryable, userId: string, hashes: readonly Buffer[]): Promise<void> => {
  await db.query('delete from recovery_codes where user_id = $1', [userId]);
  await db.query('insert into recovery_codes (hash, user_id) select hash, $1 from unnest($2::bytea[]) as c (hash)', [
    userId,
    hashes,
  ]);
};

/** @returns whether it was one of the user's, which it is no more */
const takeRecoveryCode = async (db: Queryable, userId: string, hash: Buffer): Promise<boolean> =>
  (await db.query('delete from recovery_codes where user_id = $1 and hash = $2 returning hash', [userId, hash]))
    .length > 0;

export const countRecoveryCodes = async (db: Queryable, userId: string): Promise<number> =>
  (await one(db.query<{ left: number }>(`select count(*) as "left" from recovery_codes where user_id = $1`, [userId])))
    .left;

export const insertChallenge = async (
  db: Queryable,
  { hash, userId, minutes }: { readonly hash: Buffer; readonly userId: string; readonly minutes: number },
): Promise<void> => {
  await db.query(
    'insert into factor_challenges (hash, user_id, expires_at) values ($1, $2, now() + make_interval(mins => $3))',
    [hash, userId, minutes],
  );
};

/** The user whose sign-in waits for a factor. */
export const findChallenge = async (db: Queryable, hash: Buffer): Promise<string | undefined> =>
  (
    await maybeOne(
      db.query<{ user_id: string }>('select user_id from factor_challenges where hash = $1 and expires_at > now()', [
        hash,
      ]),
    )
  )?.user_id;

/** Counts one code that was wrong; after that many the challenge is gone. */
export const failChallenge = async (db: Queryable, hash: Buffer, max: number): Promise<void> => {
  await db.query('update factor_challenges set attempts = attempts + 1 where hash = $1', [hash]);
  await db.query('delete from factor_challenges where hash = $1 and attempts >= $2', [hash, max]);
};

export const deleteChallenge = async (db: Queryable, hash: Buffer): Promise<void> => {
  await db.query('delete from factor_challenges where hash = $1', [hash]);
};

export const deleteChallenges = async (db: Queryable, userId: string): Promise<void> => {
  await db.query('delete from factor_challenges where user_id = $1', [userId]);
};

export const sweepChallenges = async (db: Queryable): Promise<void> => {
  await db.query(
    `delete from factor_challenges where hash = any (array(
       select hash from factor_challenges where expires_at < now() limit 5000 for update skip locked))`,
  );
};

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
