import { type Queryable, maybeOne, one } from '#lib/control-db.ts';

/** The people who sign in to the platform: the table `users`, on which teams and accounts build. */

export interface User {
  readonly id: string;
  readonly email: string;
  readonly full_name: string | null;
  readonly avatar_url: string | null;
  readonly created_at: Date;
}

export type UserWithPassword = User & { readonly password_hash: string };

/** The columns of a user as it may be shown. */
export const userColumns = 'id, email, full_name, avatar_url, created_at';

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
      `insert into users (id, email, full_name, password_hash) values ($1, $2, $3, $4) returning ${userColumns}`,
      [user.id, user.email, user.fullName, user.passwordHash],
    ),
  );

export const findUser = (db: Queryable, id: string): Promise<User | undefined> =>
  maybeOne(db.query(`select ${userColumns} from users where id = $1`, [id]));

export const findUserWithPassword = (db: Queryable, id: string): Promise<UserWithPassword | undefined> =>
  maybeOne(db.query(`select ${userColumns}, password_hash from users where id = $1`, [id]));

export const findUserByEmail = (db: Queryable, email: string): Promise<UserWithPassword | undefined> =>
  maybeOne(db.query(`select ${userColumns}, password_hash from users where lower(email) = lower($1)`, [email]));

/** Holds back sign-ins and other resets of the user until this transaction ends. */
export const lockUser = async (db: Queryable, userId: string): Promise<void> => {
  await db.query('select from users where id = $1 for no key update', [userId]);
};

export const setPassword = async (db: Queryable, userId: string, passwordHash: string): Promise<void> => {
  await db.query('update users set password_hash = $2, updated_at = now() where id = $1', [userId, passwordHash]);
};

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

export const deleteUser = async (db: Queryable, userId: string): Promise<void> => {
  await db.query('delete from users where id = $1', [userId]);
};
