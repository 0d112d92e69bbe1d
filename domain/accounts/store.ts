import { type Queryable, maybeOne } from '#lib/control-db.ts';

export interface User {
  readonly id: string;
  readonly email: string;
  readonly full_name: string | null;
  readonly avatar_url: string | null;
  readonly created_at: Date;
}

const columns = 'id, email, full_name, avatar_url, created_at';

export interface NewUser {
  readonly id: string;
  readonly email: string;
  readonly fullName: string | null;
  readonly passwordHash: string;
}

/** Fails on `users_email_key` when the address is taken. */
export const insertUser = (db: Queryable, user: NewUser): Promise<User | undefined> =>
  maybeOne(
    db.query<User>(
      `insert into users (id, email, full_name, password_hash) values ($1, $2, $3, $4) returning ${columns}`,
      [user.id, user.email, user.fullName, user.passwordHash],
    ),
  );

export const findUserByEmail = (
  db: Queryable,
  email: string,
): Promise<(User & { password_hash: string }) | undefined> =>
  maybeOne(db.query(`select ${columns}, password_hash from users where lower(email) = lower($1)`, [email]));

export const setPassword = async (db: Queryable, userId: string, passwordHash: string): Promise<void> => {
  await db.query('update users set password_hash = $2, updated_at = now() where id = $1', [userId, passwordHash]);
};
