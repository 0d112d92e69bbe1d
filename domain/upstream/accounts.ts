import type { EndUserDeps } from '#domain/end-users/end-users.ts';
import { AuthError } from '#domain/end-users/errors.ts';
import { requireRoomForUser } from '#domain/end-users/sign-up.ts';
import { emailProvedSql, isUniqueEmail, normalEmail, userColumns, userEventSql } from '#domain/end-users/users.ts';
import type { Project } from '#domain/projects/store.ts';
import { newId } from '#lib/ids.ts';
import { DatabaseError } from 'pg';
import type { UpstreamUser } from './openid.ts';
import type { UpstreamProvider } from './providers.ts';

/*
 * The user of the project's application that a user of another provider is: the one who has that identity; else one whose
 * confirmed address the provider verified, where the project allows that; else somebody new.
 */

type Deps = Pick<EndUserDeps, 'authDb' | 'settings' | 'markDirty'>;

const byIdentitySql = `
  update auth.identities i set data = $3, email = $4, updated_at = now(), last_sign_in_at = now()
  where i.provider = $1 and i.subject = $2 returning i.user_id`;

/** A user's identities: each is read with the user. */
const maxIdentities = 50;

const linkSql = `
  insert into auth.identities (id, user_id, provider, subject, data, email, last_sign_in_at)
  select $1, $2, $3, $4, $5, $6, now()
  where (select count(*) from auth.identities where user_id = $2) < ${maxIdentities} returning id`;

const isKnownIdentity = (error: unknown): boolean =>
  error instanceof DatabaseError && error.constraint === 'identities_provider_subject_key';

const addressOf = ({ email }: UpstreamUser): string | null => (email === null ? null : normalEmail(email));

/** @throws {AuthError} `identity_already_exists` */
export const linkIdentity = async (
  { authDb }: Deps,
  projectId: string,
  userId: string,
  { provider, user }: { readonly provider: string; readonly user: UpstreamUser },
): Promise<void> => {
  const values = [newId(), userId, provider, user.subject, JSON.stringify(user.data), addressOf(user)];
  const rows = await authDb.secrets(projectId, linkSql, values).catch((error: unknown) => {
    if (!isKnownIdentity(error)) throw error;
    throw new AuthError('identity_already_exists', 'This identity belongs to a user already.');
  });
  if (rows.length === 0) throw new AuthError('conflict', `A user may have ${maxIdentities} identities.`);
};

/** An address that the provider did not verify is kept with the identity alone: it may be somebody else's. */
const insertSql = `
  with u as (
    insert into auth.users (id, email, email_confirmed_at, raw_user_meta_data, raw_app_meta_data)
    values ($1, $2, case when $2::text is not null then now() end, $3, $4)
    returning id, email, email_confirmed_at, raw_user_meta_data, raw_app_meta_data, is_anonymous, invited_at,
      banned_until, created_at, updated_at)
  select ${userColumns}, auth.put_account(u.id, null, $5, $6, $7, $8), auth.emit('user.created', ${userEventSql}),
    auth.emit('auth.signup', json_build_object('user_id', u.id, 'email', u.email, 'method', $5::text))
  from u`;

const emailExists = (): AuthError =>
  new AuthError('email_exists', 'There is a user with this e-mail address already. Sign in as before.');

const makeUser = async (
  { authDb, markDirty }: Deps,
  projectId: string,
  provider: string,
  user: UpstreamUser,
): Promise<string> => {
  const id = newId();
  const { email: _email, email_verified: _verified, sub: _sub, ...profile } = user.data;
  await authDb
    .users(projectId, insertSql, [
      id,
      user.emailVerified ? addressOf(user) : null,
      JSON.stringify(profile),
      JSON.stringify({ provider, providers: [provider] }),
      provider,
      user.subject,
      JSON.stringify(user.data),
      addressOf(user),
    ])
    .catch((error: unknown) => {
      throw isUniqueEmail(error) ? emailExists() : error;
    });
  markDirty(projectId);
  return id;
};

interface Known {
  readonly id: string;
  readonly is_proved: boolean;
}

const findByVerifiedEmail = async (
  { authDb }: Deps,
  projectId: string,
  user: UpstreamUser,
): Promise<Known | undefined> => {
  if (!user.emailVerified) return undefined;
  const [known] = await authDb.secrets<Known>(
    projectId,
    `select u.id, ${emailProvedSql} as is_proved from auth.users u where u.email = $1`,
    [addressOf(user)],
  );
  return known;
};

/**
 * @returns the user's id
 * @throws {AuthError} `signup_disabled`, `email_exists`
 * @throws {ServiceError} `plan_limit_exceeded`
 */
export const accountFor = async (
  deps: Deps,
  project: Project,
  provider: Pick<UpstreamProvider, 'provider' | 'link_by_verified_email'>,
  user: UpstreamUser,
): Promise<string> => {
  const name = provider.provider;
  const [present] = await deps.authDb.secrets<{ user_id: string }>(project.id, byIdentitySql, [
    name,
    user.subject,
    JSON.stringify(user.data),
    addressOf(user),
  ]);
  if (present !== undefined) return present.user_id;
  const known = await findByVerifiedEmail(deps, project.id, user);
  if (known !== undefined) {
    // An address that nobody proved may have been typed by a stranger, who would then share the account.
    if (!provider.link_by_verified_email || !known.is_proved) throw emailExists();
    await linkIdentity(deps, project.id, known.id, { provider: name, user });
    return known.id;
  }
  const { signup } = await deps.settings.of(project.id);
  if (signup !== 'open') throw new AuthError('signup_disabled', 'New users cannot sign up here.');
  await requireRoomForUser(deps, project);
  return makeUser(deps, project.id, name, user);
};

const unlinkSql = `
  with account as (select user_id from auth.accounts where user_id = $2 for no key update),
  gone as (
    delete from auth.identities i using account a
    where i.id = $1 and i.user_id = a.user_id and (select count(*) from auth.identities o where o.user_id = $2) > 1
    returning i.id, i.provider),
  -- Without it the password would still sign in.
  dropped as (
    update auth.accounts a set password_sealed = null from gone where gone.provider = 'email' and a.user_id = $2)
  select id from gone`;

/** @throws {AuthError} `identity_not_found`, `single_identity_not_deletable` */
export const unlinkIdentity = async (
  { authDb }: Deps,
  projectId: string,
  { userId, identityId }: { readonly userId: string; readonly identityId: string },
): Promise<void> => {
  const rows = await authDb.secrets(projectId, unlinkSql, [identityId, userId]);
  if (rows.length > 0) return;
  const own = await authDb.secrets(projectId, 'select from auth.identities where id = $1 and user_id = $2', [
    identityId,
    userId,
  ]);
  if (own.length === 0) throw new AuthError('identity_not_found', 'There is no such identity.');
  throw new AuthError('single_identity_not_deletable', 'A user needs one way to sign in at least.');
};
