import { actingAs } from '#domain/audit/actor.ts';
import { insertOwnOrganization } from '#domain/teams/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { hashPassword, verifyPassword } from './passwords.ts';
import { type SignInOrigin, type Tokens, signIn } from './sign-ins.ts';
import { type User, findUserByEmail, insertUser } from './store.ts';

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
