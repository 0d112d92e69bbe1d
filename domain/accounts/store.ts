import { type Queryable, maybeOne, one } from '#lib/control-db.ts';

export interface User {
  readonly id: string;
  readonly email: string;
  readonly full_name: string | null;
  readonly avatar_url: string | null;
  readonly created_at: Date;
}

export type UserWithPassword = User & { readonly password_hash: string };

const columns = 'id, email, full_name, avatar_url, created_at';

export interface NewUser {
  readonly id: string;
  readonly email: string;
  readonly fullName: string | null;
  readonly passwordHash: string;
}

/** Fails on `users_email_key` when the address is taken. */
export const insertUser = (db: Queryable, user: NewUser): Promise<User> =>
  one(
    db.query<User>(
      `insert into users (id, email, full_name, password_hash) values ($1, $2, $3, $4) returning ${columns}`,
      [user.id, user.email, user.fullName, user.passwordHash],
    ),
  );

export const findUser = (db: Queryable, id: string): Promise<User | undefined> =>
  maybeOne(db.query(`select ${columns} from users where id = $1`, [id]));

export const findUserWithPassword = (db: Queryable, id: string): Promise<UserWithPassword | undefined> =>
  maybeOne(db.query(`select ${columns}, password_hash from users where id = $1`, [id]));

export const findUserByEmail = (db: Queryable, email: string): Promise<UserWithPassword | undefined> =>
  maybeOne(db.query(`select ${columns}, password_hash from users where lower(email) = lower($1)`, [email]));

/** Holds back sign-ins and other resets of the user until this transaction ends. */
export const lockUser = async (db: Queryable, userId: string): Promise<void> => {
  await db.query('select from users where id = $1 for no key update', [userId]);
};

export const setPassword = async (db: Queryable, userId: string, passwordHash: string): Promise<void> => {
  await db.query('update users set password_hash = $2, updated_at = now() where id = $1', [userId, passwordHash]);
};

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
      `select ${columns}, email_confirmed_at is not null as email_confirmed,
         (select c.email from email_confirmations c where c.user_id = u.id and c.expires_at > now() and c.email <> u.email
          limit 1) as pending_email
       from users u where id = $1`,
      [userId],
    ),
  );

export const setFullName = async (db: Queryable, userId: string, fullName: string | null): Promise<void> => {
  await db.query('update users set full_name = $2, updated_at = now() where id = $1', [userId, fullName]);
};

/**
 * The address is confirmed, and stands at the user's memberships, too, but where an invite to it waits. Fails on
 * `users_email_key` when it is taken.
 */
export const setEmail = async (db: Queryable, userId: string, email: string): Promise<void> => {
  await db.query('update users set email = $2, email_confirmed_at = now(), updated_at = now() where id = $1', [
    userId,
    email,
  ]);
  await db.query(
    `update members m set email = $2 where m.user_id = $1 and not exists (
       select from members o where o.org_id = m.org_id and lower(o.email) = lower($2) and o.id <> m.id)`,
    [userId, email],
  );
};

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

/** None of the user's links works any more. Their rows stay for a day: by them the links that a user has sent are counted. */
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

export const deleteUser = async (db: Queryable, userId: string): Promise<void> => {
  await db.query('delete from users where id = $1', [userId]);
};
