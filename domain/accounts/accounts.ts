import { actingAs } from '#domain/audit/actor.ts';
import type { PlatformMail } from '#domain/mail/platform-mail.ts';
import { insertOwnOrganization } from '#domain/teams/store.ts';
import { type ControlDb, type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken, newId, newToken } from '#lib/ids.ts';
import { hashPassword, verifyPassword } from './passwords.ts';
import { type SignInOrigin, type Tokens, endAllSignIns, signIn } from './sign-ins.ts';
import { type User, findUserByEmail, insertUser, setPassword } from './store.ts';

const resetMinutes = 60;

export interface SignedInUser {
  readonly user: User;
  readonly tokens: Tokens;
}

export interface SignUpInput {
  readonly email: string;
  readonly password: string;
  readonly fullName: string | null;
}

/**
 * A new user with an organization of their own, signed in.
 * @throws {ServiceError} `email_taken`
 */
export const signUp = async (
  db: ControlDb,
  input: SignUpInput,
  origin: SignInOrigin & { readonly requestId: string },
): Promise<SignedInUser> => {
  const passwordHash = await hashPassword(input.password);
  const id = newId();
  const actor = actingAs({ type: 'user', id, email: input.email, ip: origin.ip, request_id: origin.requestId });
  return db.transaction(async (tx) => {
    const user = await insertUser(tx, { id, email: input.email, fullName: input.fullName, passwordHash });
    if (user === undefined) throw new Error('a new user was not answered');
    await insertOwnOrganization(tx, user);
    return { user, tokens: await signIn(tx, user.id, origin) };
  }, actor);
};

/**
 * Unknown address and wrong password answer alike, in words and in time.
 * @throws {ServiceError} `invalid_credentials`
 */
export const logIn = async (
  db: Queryable,
  { email, password }: { readonly email: string; readonly password: string },
  origin: SignInOrigin,
): Promise<SignedInUser> => {
  const found = await findUserByEmail(db, email);
  if (!(await verifyPassword(password, found?.password_hash)) || found === undefined) {
    throw new ServiceError('invalid_credentials', 'The e-mail address or the password is wrong.');
  }
  const { password_hash: _hash, ...user } = found;
  return { user, tokens: await signIn(db, user.id, origin) };
};

/** Sends a reset link when the address is known; says nothing about whether it is. */
export const forgotPassword = async (db: Queryable, mail: PlatformMail, email: string): Promise<void> => {
  const user = await findUserByEmail(db, email);
  const token = newToken('plinth_reset');
  if (user === undefined) return;
  await db.query(
    `insert into password_resets (hash, user_id, expires_at) values ($1, $2, now() + make_interval(mins => $3))`,
    [hashToken(token), user.id, resetMinutes],
  );
  await mail.send(db, {
    to: user.email,
    kind: 'password-reset',
    url: mail.link(`/reset-password/${token}`),
    minutes: resetMinutes,
  });
};

/**
 * Sets a new password by the token of a reset link; all sign-ins and other links of the user end.
 * @throws {ServiceError} `expired` when the token was used, is too old or never was
 */
export const resetPassword = async (db: Queryable, token: string, passwordHash: string): Promise<void> => {
  const row = await maybeOne(
    db.query<{ user_id: string }>(
      `delete from password_resets where hash = $1 and expires_at > now() returning user_id`,
      [hashToken(token)],
    ),
  );
  if (row === undefined) {
    throw new ServiceError('expired', 'This reset link was used or is too old.', { hint: 'Ask for a new one.' });
  }
  await setPassword(db, row.user_id, passwordHash);
  await endAllSignIns(db, row.user_id);
  await db.query('delete from password_resets where user_id = $1', [row.user_id]);
};
