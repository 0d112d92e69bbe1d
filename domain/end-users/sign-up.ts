import { isAddress } from '#domain/email/address.ts';
import type { Plan } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { countOfNetwork } from './attempts.ts';
import type { EndUserDeps, SignInCall } from './end-users.ts';
import { AuthError } from './errors.ts';
import { requireStrong, sealPassword } from './passwords.ts';
import { type SignedIn, beginSession } from './sessions.ts';
import type { AuthSettings } from './settings.ts';
import {
  type EndUserAccount,
  type EndUserRow,
  findAccount,
  isStorable,
  maxMetadataBytes,
  normalEmail,
  userColumns,
  userEventSql,
} from './users.ts';

/** A user who signs up with an e-mail address and a password. */
export interface SignUpOrder {
  readonly email: string;
  readonly password: string;
  /** `user_metadata`, which the user may change later. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** The most users of a project. By the estimate that PostgreSQL keeps: counting a million rows takes 50 ms. */
const maxUsers = { free: 100_000, pro: 1_000_000, enterprise: 10_000_000 } as const satisfies Record<Plan, number>;

/** The most users of a project. */
export const maxUsersOf = (plan: Plan): number => maxUsers[plan];

/** @throws {ServiceError} `plan_limit_exceeded` */
export const requireRoomForUser = async (
  { authDb }: Pick<EndUserDeps, 'authDb'>,
  { id, plan }: { readonly id: string; readonly plan: Plan },
): Promise<void> => {
  const [row] = await authDb.secrets<{ users: number }>(
    id,
    `select greatest(reltuples, 0)::float8 as users from pg_class where oid = to_regclass('auth.users')`,
  );
  if ((row?.users ?? 0) < maxUsers[plan]) return;
  throw new ServiceError('plan_limit_exceeded', `The plan of the project allows ${maxUsers[plan]} users.`);
};

/** A user to be made. */
interface NewEndUser {
  readonly id: string;
  readonly email: string;
  readonly confirmedAt: Date | null;
  /** An administrator vouches for the address. */
  readonly isProved: boolean;
  readonly userMetadata: Readonly<Record<string, unknown>>;
  readonly appMetadata: Readonly<Record<string, unknown>>;
  readonly passwordSealed: Buffer | null;
  /** Left out: not banned. */
  readonly bannedUntil?: Date | null;
  /** Left out: not invited. */
  readonly invitedAt?: Date | null;
}

/** The events are written with the user, or not at all. */
const insertSql = `
  with u as (
    insert into auth.users (id, email, email_confirmed_at, raw_user_meta_data, raw_app_meta_data, banned_until,
      invited_at)
    values ($1, $2, $3, $4, $5, $8, $9)
    on conflict (email) do nothing
    returning id, email, email_confirmed_at, raw_user_meta_data, raw_app_meta_data, is_anonymous, invited_at,
      banned_until, created_at, updated_at)
  select ${userColumns},
    auth.put_account(u.id, $6, 'email', u.id::text,
      json_build_object('sub', u.id, 'email', u.email, 'email_verified', $10::boolean)::jsonb,
      u.email),
    auth.emit('user.created', ${userEventSql}), case when $7::json is not null then auth.emit('auth.signup', $7) end
  from u`;

/**
 * Makes a user, with its account and identity.
 * @param isSignUp the user does it, and not the project's administration
 * @returns undefined when the address is taken
 */
export const insertUser = async (
  { authDb, markDirty }: EndUserDeps,
  projectId: string,
  user: NewEndUser,
  isSignUp: boolean,
): Promise<EndUserRow | undefined> => {
  const [row] = await authDb.users<EndUserRow>(projectId, insertSql, [
    user.id,
    user.email,
    user.confirmedAt,
    JSON.stringify(user.userMetadata),
    JSON.stringify(user.appMetadata),
    user.passwordSealed,
    isSignUp ? JSON.stringify({ user_id: user.id, email: user.email, method: 'password' }) : null,
    user.bannedUntil ?? null,
    user.invitedAt ?? null,
    user.isProved,
  ]);
  if (row !== undefined) markDirty(projectId);
  return row;
};

/** @throws {AuthError} `validation_failed` */
export const requireStorable = (metadata: Readonly<Record<string, unknown>>): void => {
  if (isStorable(metadata)) return;
  throw new AuthError(
    'validation_failed',
    `The metadata must not be longer than ${maxMetadataBytes} bytes, and well-formed Unicode without NUL.`,
  );
};

/** @throws {AuthError} `email_address_invalid` */
export const requireAddress = (given: string): string => {
  const email = normalEmail(given);
  if (!isAddress(email)) throw new AuthError('email_address_invalid', 'This is not an e-mail address.');
  return email;
};

const requireOpen = ({ signup }: AuthSettings): void => {
  if (signup === 'open') return;
  throw new AuthError('signup_disabled', 'New users cannot sign up here.', {
    hint: signup === 'invite' ? 'Ask to be invited.' : 'Only users that exist can sign in.',
  });
};

/** The metadata that the platform keeps of how a user signs in. */
export const appMetadataOf = (provider: string): Readonly<Record<string, unknown>> => ({
  provider,
  providers: [provider],
});

const newUserOf = (order: SignUpOrder & { readonly id: string }, passwordSealed: Buffer): NewEndUser => ({
  id: order.id,
  email: order.email,
  confirmedAt: null,
  isProved: false,
  userMetadata: order.data,
  appMetadata: appMetadataOf('email'),
  passwordSealed,
});

/** A user as it is answered before the address is confirmed: the same for an address that somebody has already. */
const pendingUser = ({ id, email, userMetadata, appMetadata }: NewEndUser): EndUserAccount => {
  const now = new Date();
  const at = now.toISOString();
  const identity = { identity_id: newId(), id, user_id: id, provider: 'email', email };
  return {
    id,
    email,
    email_confirmed_at: null,
    raw_user_meta_data: userMetadata,
    raw_app_meta_data: appMetadata,
    is_anonymous: false,
    invited_at: null,
    banned_until: null,
    created_at: now,
    updated_at: now,
    is_email_proved: false,
    password_sealed: null,
    last_sign_in_at: null,
    new_email: null,
    factors: [],
    identities: [
      {
        ...identity,
        identity_data: { sub: id, email, email_verified: false },
        created_at: at,
        updated_at: at,
        last_sign_in_at: null,
      },
    ],
  };
};

/** A new user: signed in, or waiting for a click on the link in a mail. */
export type SignedUp = { readonly signedIn: SignedIn } | { readonly pending: EndUserAccount };

/** Where the link of a mail leads to, and who may use it there. */
export interface LinkTarget {
  readonly redirectTo: string | null;
  readonly codeChallenge: string | null;
}

/** A user who was made, or who seems to have been made while addresses are confirmed. */
export interface RegisteredUser {
  readonly user: NewEndUser;
  /** Waits for a click on the link in a mail. */
  readonly isPending: boolean;
}

/**
 * Makes a user. Where addresses are confirmed, the answer says nothing about whether there is one with it already.
 * @throws {AuthError} `signup_disabled`, `email_address_invalid`, `weak_password`, `validation_failed`,
 * `user_already_exists`, `over_request_rate_limit`
 * @throws {ServiceError} `smtp_not_configured`
 */
export const registerUser = async (
  deps: EndUserDeps,
  { project, origin }: Pick<SignInCall, 'project' | 'origin'>,
  order: SignUpOrder,
  target: LinkTarget,
): Promise<RegisteredUser> => {
  const settings = await deps.settings.of(project.id);
  requireOpen(settings);
  const email = requireAddress(order.email);
  await requireStrong(deps, order.password, settings);
  requireStorable(order.data);
  await countOfNetwork(deps.authDb, project.id, { kind: 'signup', network: origin.network }, deps.isLimited);
  await requireRoomForUser(deps, project);
  if (settings.confirm_email) await deps.mails.require(project);
  const id = newId();
  const sealed = await sealPassword(deps, project, id, order.password);
  const user = newUserOf({ ...order, email, id }, sealed);
  if (settings.confirm_email) {
    await insertUser(deps, project.id, user, true);
    await deps.mails.request(project, { kind: 'signup', email, ...target });
    return { user, isPending: true };
  }
  if ((await insertUser(deps, project.id, { ...user, confirmedAt: new Date() }, true)) === undefined) {
    throw new AuthError('user_already_exists', 'There is a user with this e-mail address already.');
  }
  return { user, isPending: false };
};

/** The account of a user who was made a moment ago. @throws {AuthError} `user_not_found` */
export const accountOfNew = async (
  { authDb }: EndUserDeps,
  projectId: string,
  { id }: Pick<NewEndUser, 'id'>,
): Promise<EndUserAccount> => {
  const account = await findAccount(authDb, projectId, id);
  if (account === undefined) throw new AuthError('user_not_found', 'The user was deleted meanwhile.');
  return account;
};

/** Makes a user, and signs them in unless their address waits to be confirmed. @throws as `registerUser` */
export const signUp = async (
  deps: EndUserDeps,
  call: SignInCall,
  order: SignUpOrder,
  target: LinkTarget,
): Promise<SignedUp> => {
  const { user: made, isPending } = await registerUser(deps, call, order, target);
  if (isPending) return { pending: pendingUser(made) };
  const user = await accountOfNew(deps, call.project.id, made);
  const { passwordSealed } = made;
  return { signedIn: await beginSession(deps, call, { user, method: 'password', passwordSealed, counted: null }) };
};
