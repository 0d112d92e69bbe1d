/*
 * Accounts of people. This file has signing up and signing in, with the second factor as a second step. sign-ins.ts has
 * the tokens and the list of sessions, personal-tokens.ts those of programs, devices.ts sign-ins that are approved in a
 * browser, use.ts notes when tokens were used; passwords.ts hashes; codes.ts has codes of second factors, and factors.ts sets a
 * factor up. proof.ts proves who the user is before a change, and counts failures; profile.ts changes and deletes the
 * own account; resets.ts mails links for a forgotten password; join.ts accepts an invite. store.ts has the rows of
 * mailed links.
 */
import { noteAccount } from '#domain/audit/audit.ts';
import { type Actor, actingAs } from '#domain/audit/actor.ts';
import { insertOwnOrganization } from '#domain/teams/store.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken, newId, newToken } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { beginAttempt, beginCodeAttempt } from './proof.ts';
import {
  type FactorMethod,
  deleteChallenge,
  failChallenge,
  findChallenge,
  findFactor,
  insertChallenge,
  takeCode,
} from './codes.ts';
import { hashPassword, verifyPassword } from './passwords.ts';
import { type SignInForm, type SignInOrigin, type Tokens, signIn, tokenForm } from './sign-ins.ts';
import {
  type User,
  type UserWithPassword,
  findUserByEmail,
  findUserWithPassword,
  insertUser,
  lockUser,
} from '#domain/users/users.ts';

export interface SignedInUser<T = Tokens> {
  readonly user: User;
  readonly tokens: T;
}

export interface SignUpInput {
  readonly email: string;
  readonly password: string;
  readonly fullName: string | null;
}

type RequestOrigin = SignInOrigin & { readonly requestId: string };

/** A user who acts without an access token. */
export const actorOf = (
  { id, email }: Pick<User, 'id' | 'email'>,
  { ip, userAgent, requestId }: RequestOrigin,
): Actor => ({
  type: 'user',
  id,
  email,
  ip,
  ...(userAgent !== undefined && { user_agent: userAgent }),
  request_id: requestId,
});

/**
 * A new user with an organization of their own, signed in.
 * @throws {ServiceError} `email_taken`, by the unique index on the address
 */
export const signUp = async (db: ControlDb, input: SignUpInput, origin: RequestOrigin): Promise<SignedInUser> => {
  const passwordHash = await hashPassword(input.password);
  const id = newId();
  return db.transaction(
    async (tx) => {
      const user = await insertUser(tx, { id, email: input.email, fullName: input.fullName, passwordHash });
      await insertOwnOrganization(tx, user);
      const started = await signIn(tx, { id, password_hash: passwordHash }, origin, tokenForm);
      if (started === undefined) throw new Error('a new user cannot sign in');
      return { user, tokens: started.tokens };
    },
    actingAs(actorOf({ id, email: input.email }, origin)),
  );
};

/** Where a request to sign in comes from. */
export interface SignInRequest {
  readonly origin: RequestOrigin;
  /** False with `PLINTH_RATE_LIMITS=off`. */
  readonly isLimited: boolean;
}

/** The same, and what it is to be answered with. */
export interface SignInOrder<T> extends SignInRequest {
  readonly form: SignInForm<T>;
}

type Method = 'password' | FactorMethod | 'device';

/** Begins a sign-in and writes it down in the audit log; undefined when the password was changed meanwhile. */
export const beginSignIn = async <T>(
  tx: Queryable,
  user: UserWithPassword,
  { origin, form }: Pick<SignInOrder<T>, 'origin' | 'form'>,
  method: Method,
): Promise<T | undefined> => {
  const started = await signIn(tx, user, origin, form);
  if (started === undefined) return undefined;
  const actor = actorOf(user, origin);
  await noteAccount(tx, user.id, { actor, action: 'sign_in.create', targetId: started.id, after: { method } });
  return started.tokens;
};

const challengeMinutes = 5;
/** Codes that one right password may be followed by. */
const maxCodes = 5;

/** A sign-in that waits for the user's second factor. */
interface Challenge {
  readonly factorToken: string;
}

const challenge = async (tx: Queryable, userId: string): Promise<Challenge> => {
  const factorToken = newToken('plinth_ft');
  await insertChallenge(tx, { hash: hashToken(factorToken), userId, minutes: challengeMinutes });
  return { factorToken };
};

const factorRequired = ({ factorToken }: Challenge): ServiceError =>
  new ServiceError('factor_required', 'This account asks for a second factor.', {
    details: { factor_token: factorToken, expires_in: challengeMinutes * 60 },
    hint: 'Send factor_token and a code to POST /auth/login/factor.',
  });

const shown = ({ password_hash: _hash, ...user }: UserWithPassword): User => user;

/**
 * Unknown address and wrong password answer alike, in words and in time.
 * @throws {ServiceError} `invalid_credentials`, `rate_limited`; `factor_required` with the token for `logInWithFactor`
 */
export const logIn = async <T>(
  db: ControlDb,
  { email, password }: { readonly email: string; readonly password: string },
  request: SignInOrder<T>,
): Promise<SignedInUser<T>> => {
  const attempt = await beginAttempt(db, email, request.isLimited);
  const found = await findUserByEmail(db, email);
  const matches = await verifyPassword(password, found?.password_hash);
  const outcome =
    found && matches
      ? await db.transaction(async (tx) =>
          (await findFactor(tx, found.id))?.verified_at
            ? { challenge: await challenge(tx, found.id) }
            : { tokens: await beginSignIn(tx, found, request, 'password') },
        )
      : undefined;
  const tokens = outcome && 'tokens' in outcome ? outcome.tokens : undefined;
  if (outcome && 'challenge' in outcome) {
    await attempt.refund();
    throw factorRequired(outcome.challenge);
  }
  if (found === undefined || tokens === undefined) {
    throw new ServiceError('invalid_credentials', 'The e-mail address or the password is wrong.');
  }
  await attempt.clear();
  return { user: shown(found), tokens };
};

const userOfChallenge = async (db: Queryable, hash: Buffer): Promise<UserWithPassword> => {
  const userId = await findChallenge(db, hash);
  const user = userId === undefined ? undefined : await findUserWithPassword(db, userId);
  if (user !== undefined) return user;
  throw new ServiceError('unauthenticated', 'The factor_token is not valid or has expired.', {
    hint: 'Sign in with the password again.',
  });
};

/**
 * The second step of a sign-in.
 * @throws {ServiceError} `unauthenticated` for a token that is used, too old or was never given out;
 * `invalid_credentials` for a wrong code, `rate_limited`
 */
export const logInWithFactor = async <T>(
  { db, sealer }: { readonly db: ControlDb; readonly sealer: Sealer },
  { factorToken, code }: Challenge & { readonly code: string },
  request: SignInOrder<T>,
): Promise<SignedInUser<T>> => {
  const hash = hashToken(factorToken);
  const { email } = await userOfChallenge(db, hash);
  const attempt = await beginCodeAttempt(db, email, request.isLimited);
  const done = await db.transaction(async (tx) => {
    const { id } = await userOfChallenge(tx, hash);
    await lockUser(tx, id);
    // The previous holder of the lock may have used the token, or changed the password.
    const user = await userOfChallenge(tx, hash);
    const method = await takeCode({ db: tx, sealer }, id, code);
    if (method === undefined) return failChallenge(tx, hash, maxCodes);
    await deleteChallenge(tx, hash);
    const tokens = await beginSignIn(tx, user, request, method);
    return tokens && { user: shown(user), tokens };
  });
  if (!done) throw new ServiceError('invalid_credentials', 'The code is wrong, or was used before.');
  await attempt.clear();
  return done;
};
