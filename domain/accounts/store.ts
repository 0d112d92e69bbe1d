import { type User, userColumns } from '#domain/users/users.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';

export const insertResetRequest = async (db: Queryable, id: string, email: string): Promise<void> => {
  await db.query('insert into reset_requests (id, email) values ($1, $2)', [id, email]);
};

/** Claims the oldest request that no other process serves. */
export const takeResetRequest = async (db: Queryable): Promise<string | undefined> => {
  const row = await maybeOne(
    db.query<{ email: string }>(
      `delete from reset_requests where id = (
         select id from reset_requests order by id limit 1 for update skip locked) returning email`,
      [],
      'take-reset-request',
    ),
  );
  return row?.email;
};

export interface PasswordReset {
  readonly hash: Buffer;
  readonly userId: string;
  readonly minutes: number;
}

export const insertReset = async (db: Queryable, { hash, userId, minutes }: PasswordReset): Promise<void> => {
  await db.query(
    'insert into password_resets (hash, user_id, expires_at) values ($1, $2, now() + make_interval(mins => $3))',
    [hash, userId, minutes],
  );
};

/** How many unused reset links the user has. */
export const countResets = async (db: Queryable, userId: string): Promise<number> => {
  const row = await one(
    db.query<{ links: number }>(
      'select count(*) as links from password_resets where user_id = $1 and expires_at > now()',
      [userId],
    ),
  );
  return row.links;
};

/** The user whom a valid reset token belongs to. */
export const findResetUser = async (db: Queryable, hash: Buffer): Promise<string | undefined> => {
  const row = await maybeOne(
    db.query<{ user_id: string }>('select user_id from password_resets where hash = $1 and expires_at > now()', [hash]),
  );
  return row?.user_id;
};

export const deleteResets = async (db: Queryable, userId: string): Promise<void> => {
  await db.query('delete from password_resets where user_id = $1', [userId]);
};

/** The own account as its user sees it. */
export interface Profile extends User {
  readonly email_confirmed: boolean;
  /** The address that becomes the account's once its link is opened. */
  readonly pending_email: string | null;
}

export const findProfile = (db: Queryable, userId: string): Promise<Profile> =>
  one(
    db.query<Profile>(
      `select ${userColumns}, email_confirmed_at is not null as email_confirmed,
         (select c.email from email_confirmations c
          where c.user_id = u.id and c.expires_at > now() and c.email <> u.email limit 1) as pending_email
       from users u where id = $1`,
      [userId],
    ),
  );

export const insertConfirmation = async (
  db: Queryable,
  of: { readonly hash: Buffer; readonly userId: string; readonly email: string; readonly hours: number },
): Promise<void> => {
  await db.query(
    `insert into email_confirmations (hash, user_id, email, expires_at)
     values ($1, $2, $3, now() + make_interval(hours => $4))`,
    [of.hash, of.userId, of.email, of.hours],
  );
};

export const findConfirmation = (
  db: Queryable,
  hash: Buffer,
): Promise<{ readonly user_id: string; readonly email: string } | undefined> =>
  maybeOne(db.query('select user_id, email from email_confirmations where hash = $1 and expires_at > now()', [hash]));

/**
 * None of the user's links works any more. Their rows stay for a day: by them the links that a user has sent are
 * counted.
 */
export const endConfirmations = async (db: Queryable, userId: string): Promise<void> => {
  await db.query('update email_confirmations set expires_at = now() where user_id = $1 and expires_at > now()', [
    userId,
  ]);
};

/** How many links the user has had sent within a day, or can still use. */
export const countConfirmations = async (db: Queryable, userId: string): Promise<number> => {
  const { links } = await one(
    db.query<{ links: number }>(
      `select count(*) as links from email_confirmations where user_id = $1 and expires_at > now() - interval '1 day'`,
      [userId],
    ),
  );
  return links;
};
