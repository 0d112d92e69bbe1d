import { type Queryable, maybeOne, one } from '#lib/control-db.ts';

export interface Factor {
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

export const noteStep = async (db: Queryable, id: string, step: number): Promise<void> => {
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
export const takeRecoveryCode = async (db: Queryable, userId: string, hash: Buffer): Promise<boolean> =>
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
