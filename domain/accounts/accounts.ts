import { actingAs } from '#domain/audit/actor.ts';
import type { PlatformMail } from '#domain/mail/platform-mail.ts';
import { insertOwnOrganization } from '#domain/teams/store.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken, newId, newToken } from '#lib/ids.ts';
import { hashPassword, verifyPassword } from './passwords.ts';
import { type SignInOrigin, type Tokens, endAllSignIns, signIn } from './sign-ins.ts';
import {
  type User,
  countResets,
  deleteResets,
  findResetUser,
  findUserByEmail,
  insertReset,
  insertUser,
  lockUser,
  setPassword,
} from './store.ts';

const resetMinutes = 60;
// A stranger who asks again and again must not fill somebody's mailbox; the links that were sent keep working.
const mostResetLinks = 5;

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
 * @throws {ServiceError} `email_taken`, by the unique index on the address
 */
export const signUp = async (
  db: ControlDb,
  input: SignUpInput,
  origin: SignInOrigin & { readonly requestId: string },
): Promise<SignedInUser> => {
  const passwordHash = await hashPassword(input.password);
  const id = newId();
  const actor = actingAs({
    type: 'user',
    id,
    email: input.email,
    ip: origin.ip,
    ...(origin.userAgent !== undefined && { user_agent: origin.userAgent }),
    request_id: origin.requestId,
  });
  return db.transaction(async (tx) => {
    const user = await insertUser(tx, { id, email: input.email, fullName: input.fullName, passwordHash });
    await insertOwnOrganization(tx, user);
    const tokens = await signIn(tx, { id, password_hash: passwordHash }, origin);
    if (tokens === undefined) throw new Error('a new user cannot sign in');
    return { user, tokens };
  }, actor);
};

/**
 * Unknown address and wrong password answer alike, in words and in time.
 * @throws {ServiceError} `invalid_credentials`
 */
export const logIn = async (
  db: ControlDb,
  { email, password }: { readonly email: string; readonly password: string },
  origin: SignInOrigin,
): Promise<SignedInUser> => {
  const found = await findUserByEmail(db, email);
  const matches = await verifyPassword(password, found?.password_hash);
  const tokens = found && matches ? await db.transaction((tx) => signIn(tx, found, origin)) : undefined;
  if (found === undefined || tokens === undefined) {
    throw new ServiceError('invalid_credentials', 'The e-mail address or the password is wrong.');
  }
  const { password_hash: _hash, ...user } = found;
  return { user, tokens };
};

/** Sends a reset link when the address is known; says nothing about whether it is. Needs a transaction. */
export const forgotPassword = async (db: Queryable, mail: PlatformMail, email: string): Promise<void> => {
  const user = await findUserByEmail(db, email);
  if (user === undefined) return;
  await lockUser(db, user.id);
  if ((await countResets(db, user.id)) >= mostResetLinks) return;
  const token = newToken('plinth_reset');
  await insertReset(db, { hash: hashToken(token), userId: user.id, minutes: resetMinutes });
  await mail.send(db, {
    to: user.email,
    kind: 'password-reset',
    url: mail.link(`/reset-password/${token}`),
    minutes: resetMinutes,
  });
};

/**
 * The user of a reset link. Also asked before a new password is hashed, so that made-up links cost little.
 * @throws {ServiceError} `expired` when the token was used, is too old or never was
 */
export const userOfReset = async (db: Queryable, token: string): Promise<string> => {
  const userId = await findResetUser(db, hashToken(token));
  if (userId !== undefined) return userId;
  throw new ServiceError('expired', 'This reset link was used or is too old.', { hint: 'Ask for a new one.' });
};

/**
 * Sets a new password by the token of a reset link; all sign-ins and links of the user end. Needs a transaction.
 * @throws {ServiceError} `expired`
 */
export const resetPassword = async (db: Queryable, token: string, passwordHash: string): Promise<void> => {
  const userId = await userOfReset(db, token);
  await lockUser(db, userId);
  // Whoever held the lock before may have used the link, or another of the user.
  await userOfReset(db, token);
  await setPassword(db, userId, passwordHash);
  await endAllSignIns(db, userId);
  await deleteResets(db, userId);
};
