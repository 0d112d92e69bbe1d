import type { Actor } from '#domain/audit/actor.ts';
import { noteInProject } from '#domain/audit/audit.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { type TriedClaims, tryClaims } from './custom-claims.ts';
import type { EndUserDeps, SignInCall } from './end-users.ts';
import { AuthError } from './errors.ts';
import { deleteFactor } from './factors.ts';
import { requireStrong, sealPassword } from './passwords.ts';
import { appMetadataOf, insertUser, requireAddress, requireRoomForUser, requireStorable } from './sign-up.ts';
import { type SignedIn, beginImpersonation, claimsOf, endSessions, impersonationSeconds } from './sessions.ts';
import {
  type EndUserAccount,
  accountColumns,
  accountSource,
  findAccount,
  isUniqueEmail,
  requireNotBanned,
  userEventSql,
} from './users.ts';

/** A member of the project's team, or a holder of its secret key, who administers its users. */
export interface Administrator {
  readonly deps: EndUserDeps;
  /** The control database, for the audit log. */
  readonly db: Queryable;
  readonly project: Pick<Project, 'id' | 'ref' | 'name' | 'plan' | 'data_key' | 'org_id'>;
  readonly actor: Actor;
}

/** Which users a list shows. */
export interface UserQuery {
  /** The beginning of an e-mail address, or an id. */
  readonly q?: string | undefined;
  readonly provider?: string | undefined;
  readonly limit: number;
  readonly offset: number;
}

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** The last character of Unicode: no address that begins as the text does comes after the text with it. */
const last = '\u{10FFFF}';

interface Condition {
  readonly sql: string;
  readonly values: readonly unknown[];
}

/*
 * Each set of conditions is a statement of its own, and a beginning is a range: then a plan that PostgreSQL keeps for all
 * values goes by the index, too.
 */
const conditionOf = ({ q, provider }: Pick<UserQuery, 'q' | 'provider'>): Condition => {
  const values: unknown[] = [];
  const given = (value: unknown): string => `$${values.push(value)}`;
  const parts: string[] = [];
  if (q !== undefined && uuid.test(q)) parts.push(`u.id = ${given(q.toLowerCase())}`);
  else if (q !== undefined) {
    const from = q.toLowerCase();
    parts.push(`u.email ~>=~ ${given(from)} and u.email ~<~ ${given(from + last)}`);
  }
  if (provider !== undefined) {
    parts.push(`exists (select from auth.identities i where i.user_id = u.id and i.provider = ${given(provider)})`);
  }
  return { sql: parts.length === 0 ? 'true' : parts.join(' and '), values };
};

/** The newest first. */
export const listUsers = async (
  { authDb }: EndUserDeps,
  projectId: string,
  { limit, offset, ...query }: UserQuery,
): Promise<{ readonly users: readonly EndUserAccount[]; readonly total: number }> => {
  const { sql: condition, values } = conditionOf(query);
  const users = await authDb.secrets<EndUserAccount>(
    projectId,
    `select ${accountColumns} from ${accountSource} where ${condition}
     order by u.created_at desc, u.id desc limit $${values.length + 1} offset $${values.length + 2}`,
    [...values, limit, offset],
  );
  const [count] = await authDb.secrets<{ total: number }>(
    projectId,
    `select count(*)::float8 as total from auth.users u where ${condition}`,
    values,
  );
  return { users, total: count?.total ?? 0 };
};

/** @throws {AuthError} `user_not_found` */
export const requireUser = async (deps: EndUserDeps, projectId: string, id: string): Promise<EndUserAccount> => {
  const user = await findAccount(deps.authDb, projectId, id);
  if (user === undefined) throw new AuthError('user_not_found', 'There is no such user.');
  return user;
};

/** An act upon a user, as the audit log names it. */
type Act =
  | 'create'
  | 'update'
  | 'ban'
  | 'unban'
  | 'delete'
  | 'end_sessions'
  | 'generate_link'
  | 'delete_factor'
  | 'sign_in_as';

/**
 * Writes the entry of the audit log before the change, which is made in another database: a change without an entry
 * cannot be. The entry of a change that is refused is taken back.
 */
export const audited = async <T>(
  { db, project, actor }: Administrator,
  { act, userId, after }: { readonly act: Act; readonly userId: string; readonly after?: object },
  change: () => Promise<T>,
): Promise<T> => {
  const entry = await noteInProject(db, project, {
    actor,
    action: `end_user.${act}`,
    targetType: 'end_user',
    targetId: userId,
    ...(after !== undefined && { after }),
  });
  try {
    return await change();
  } catch (error) {
    await entry.takeBack().catch(() => undefined);
    throw error;
  }
};

/** A user as an administrator makes one. */
export interface UserOrder {
  readonly id?: string | undefined;
  readonly email: string;
  readonly emailVerified: boolean;
  readonly password?: string | undefined;
  readonly userMetadata: Readonly<Record<string, unknown>>;
  readonly appMetadata: Readonly<Record<string, unknown>>;
  readonly bannedUntil?: Date | null | undefined;
  /** By a mail, or a link that the project sends. */
  readonly isInvited?: boolean;
}

/** Names that the platform writes into `app_metadata` itself. */
const ownMetadata = new Set(['provider', 'providers']);

const givenMetadata = (given: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(given).filter(([name]) => !ownMetadata.has(name)));

const takenEmail = (): AuthError => new AuthError('email_exists', 'There is a user with this e-mail address already.');

/**
 * @throws {AuthError} `email_exists`, `email_address_invalid`, `weak_password`, `validation_failed`, `conflict` (the id)
 */
export const createUser = async (by: Administrator, order: UserOrder): Promise<EndUserAccount> => {
  const { deps, project } = by;
  await requireRoomForUser(deps, project);
  const email = requireAddress(order.email);
  const { password } = order;
  if (password !== undefined) await requireStrong(deps, password, await deps.settings.of(project.id));
  const appMetadata = { ...givenMetadata(order.appMetadata), ...appMetadataOf('email') };
  for (const metadata of [order.userMetadata, appMetadata]) requireStorable(metadata);
  const id = order.id ?? newId();
  const passwordSealed = password === undefined ? null : await sealPassword(deps, project, id, password);
  return audited(by, { act: 'create', userId: id, after: { email } }, async () => {
    const user = await insertUser(
      deps,
      project.id,
      {
        id,
        email,
        confirmedAt: order.emailVerified ? new Date() : null,
        isProved: order.emailVerified,
        bannedUntil: order.bannedUntil ?? null,
        invitedAt: order.isInvited === true ? new Date() : null,
        userMetadata: order.userMetadata,
        appMetadata,
        passwordSealed,
      },
      false,
    );
    if (user === undefined) throw takenEmail();
    return requireUser(deps, project.id, id);
  });
};

/** A change of a user by an administrator; fields that are left out stay. */
export interface UserChange {
  readonly email?: string | undefined;
  readonly emailVerified?: boolean | undefined;
  readonly password?: string | undefined;
  /** Merged; null removes a name. */
  readonly userMetadata?: Readonly<Record<string, unknown>> | undefined;
  readonly appMetadata?: Readonly<Record<string, unknown>> | undefined;
  /** Null: not banned. */
  readonly bannedUntil?: Date | null | undefined;
}

const updateSql = `
  with u as (
    update auth.users u set
      email = coalesce($2, u.email),
      email_confirmed_at = case $3::boolean
        when true then coalesce(u.email_confirmed_at, now()) when false then null else u.email_confirmed_at end,
      raw_user_meta_data = coalesce($4::jsonb, u.raw_user_meta_data),
      raw_app_meta_data = coalesce($5::jsonb, u.raw_app_meta_data),
      banned_until = case when $6 then $7::timestamptz else u.banned_until end,
      updated_at = now()
    where u.id = $1
    returning u.id, u.email, u.email_confirmed_at, u.raw_user_meta_data, u.raw_app_meta_data, u.is_anonymous,
      u.created_at, u.updated_at)
  select u.id, case when $3::boolean is not null and u.email is not null then auth.put_email(u.id, u.email, $3) end,
    case when $8::bytea is not null then auth.set_password(u.id, $8, null) end,
    case when $6 and $7::timestamptz > now() then auth.end_sessions(u.id, null) end,
    auth.emit('user.updated', ${userEventSql})
  from u`;

const merged = (
  present: Readonly<Record<string, unknown>>,
  change: Readonly<Record<string, unknown>> | undefined,
): Readonly<Record<string, unknown>> | null => {
  if (change === undefined) return null;
  const all = Object.fromEntries(Object.entries({ ...present, ...change }).filter(([, value]) => value !== null));
  requireStorable(all);
  return all;
};

const actOf = ({ bannedUntil, ...rest }: UserChange): Act => {
  if (bannedUntil === undefined || Object.values(rest).some((value) => value !== undefined)) return 'update';
  return bannedUntil === null ? 'unban' : 'ban';
};

/** The fields by name, and values that are no secret. */
const shownChange = ({ email, emailVerified, bannedUntil, ...rest }: UserChange): object => ({
  ...(email !== undefined && { email }),
  ...(emailVerified !== undefined && { email_verified: emailVerified }),
  ...(bannedUntil !== undefined && { banned_until: bannedUntil }),
  changed: Object.entries(rest)
    .filter(([, value]) => value !== undefined)
    .map(([name]) => name),
});

/**
 * A new password, and a ban, end all sign-ins of the user.
 * @throws {AuthError} `user_not_found`, `email_exists`, `email_address_invalid`, `weak_password`, `validation_failed`
 */
export const updateUser = async (by: Administrator, id: string, change: UserChange): Promise<EndUserAccount> => {
  const { deps, project } = by;
  const { password, bannedUntil } = change;
  const user = await requireUser(deps, project.id, id);
  const email = change.email === undefined ? null : requireAddress(change.email);
  // A new address is not confirmed unless the change says so.
  const isOther = email !== null && email !== user.email ? false : null;
  const userMetadata = merged(user.raw_user_meta_data, change.userMetadata);
  const appMetadata = merged(user.raw_app_meta_data, change.appMetadata && givenMetadata(change.appMetadata));
  if (password !== undefined) await requireStrong(deps, password, await deps.settings.of(project.id));
  const sealed = password === undefined ? null : await sealPassword(deps, project, id, password);
  await audited(by, { act: actOf(change), userId: id, after: shownChange(change) }, async () => {
    try {
      await deps.authDb.users(project.id, updateSql, [
        id,
        email,
        change.emailVerified ?? isOther,
        userMetadata && JSON.stringify(userMetadata),
        appMetadata && JSON.stringify(appMetadata),
        bannedUntil !== undefined,
        bannedUntil ?? null,
        sealed,
      ]);
    } catch (error) {
      throw isUniqueEmail(error) ? takenEmail() : error;
    }
  });
  deps.markDirty(project.id);
  return requireUser(deps, project.id, id);
};

const deleteSql = `
  with u as (
    delete from auth.users u where u.id = $1
    returning u.id, u.email, u.email_confirmed_at, u.raw_user_meta_data, u.raw_app_meta_data, u.is_anonymous,
      u.created_at, u.updated_at)
  select auth.emit('user.deleted', ${userEventSql}) from u`;

/**
 * Deletes a user with all that refers to them `on delete cascade`.
 * @throws {AuthError} `user_not_found`, `conflict` when rows of the project still refer to them
 */
export const deleteUser = async (by: Administrator, id: string): Promise<EndUserAccount> => {
  const { deps, project } = by;
  const user = await requireUser(deps, project.id, id);
  await audited(by, { act: 'delete', userId: id, after: { email: user.email } }, () =>
    deps.authDb.users(project.id, deleteSql, [id]),
  );
  deps.markDirty(project.id);
  return user;
};

/** A sign-in of a user, as an administrator sees it. */
export interface UserSession {
  readonly id: string;
  readonly created_at: Date;
  readonly refreshed_at: Date;
  readonly aal: number;
  readonly ip: string | null;
  readonly user_agent: string | null;
  /** How it began. */
  readonly method: string;
  /** Null: the settings of sign-in say when it ends. */
  readonly ends_at: Date | null;
}

/** The newest first. @throws {AuthError} `user_not_found` */
export const listSessions = async (
  deps: EndUserDeps,
  projectId: string,
  userId: string,
): Promise<readonly UserSession[]> => {
  await requireUser(deps, projectId, userId);
  return deps.authDb.secrets<UserSession>(
    projectId,
    `select id, created_at, rotated_at as refreshed_at, aal, ip, user_agent, not_after as ends_at,
       coalesce(amr -> 0 ->> 'method', 'unknown') as method
     from auth.sessions where user_id = $1 and (not_after is null or not_after > now()) order by created_at desc, id desc limit 200`,
    [userId],
  );
};

/** Ends all sign-ins of a user. @throws {AuthError} `user_not_found` */
export const signOutUser = async (by: Administrator, userId: string): Promise<void> => {
  const { deps, project } = by;
  await requireUser(deps, project.id, userId);
  await audited(by, { act: 'end_sessions', userId }, () => endSessions(deps, project.id, userId, null));
};

/**
 * Signs a member of the team in as a user, for half an hour; the audit log says who did.
 * @throws {AuthError} `user_not_found`, `user_banned`
 */
export const signInAsUser = async (by: Administrator, call: SignInCall, userId: string): Promise<SignedIn> => {
  const { deps, project, actor } = by;
  const user = await requireUser(deps, project.id, userId);
  requireNotBanned(user);
  const after = { email: user.email, seconds: impersonationSeconds };
  return audited(by, { act: 'sign_in_as', userId, after }, () =>
    beginImpersonation(deps, call, user, actor.id ?? actor.type),
  );
};

/** Removes a factor that a user has lost. @throws {AuthError} `user_not_found`, `mfa_factor_not_found` */
export const removeFactor = async (by: Administrator, userId: string, factorId: string): Promise<void> => {
  const { deps, project } = by;
  await requireUser(deps, project.id, userId);
  await audited(by, { act: 'delete_factor', userId, after: { factor_id: factorId } }, () =>
    deleteFactor(deps, project.id, userId, factorId),
  );
};

/**
 * Runs a claims function for a user as a sign-in by password would, without one.
 * @throws {AuthError} `user_not_found`
 */
export const tryClaimsFor = async (
  deps: EndUserDeps,
  project: Project,
  { userId, functionId }: { readonly userId: string; readonly functionId: string },
): Promise<TriedClaims> => {
  const user = await requireUser(deps, project.id, userId);
  const amr = [{ method: 'password' as const, timestamp: Math.floor(Date.now() / 1000) }];
  const claims = claimsOf(user, { id: newId(), aal: 1, amr });
  const tried = await tryClaims(deps, { project, functionId, user, claims });
  return { ...tried, claims: tried.claims && { sub: user.id, role: 'authenticated', ...tried.claims } };
};
