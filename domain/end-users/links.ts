import { createHmac, randomInt } from 'node:crypto';
import type { Project } from '#domain/projects/store.ts';
import { hashToken, newToken } from '#lib/ids.ts';
import type { EndUserDeps } from './end-users.ts';
import { AuthError } from './errors.ts';
import { requireStrong, sealPassword } from './passwords.ts';
import { emailProvider, isUniqueEmail, normalEmail, userEventSql } from './users.ts';

/** Kinds of links, as the project's database has them. */
export type LinkKind =
  | 'signup'
  | 'invite'
  | 'magiclink'
  | 'recovery'
  | 'email_change_current'
  | 'email_change_new'
  | 'reauthentication';

/** The kinds that a client means by its `type`. */
const kindsOf = {
  signup: ['signup'],
  invite: ['invite'],
  magiclink: ['magiclink', 'signup'],
  recovery: ['recovery'],
  email: ['signup', 'magiclink', 'invite'],
  email_change: ['email_change_current', 'email_change_new'],
} as const satisfies Record<string, readonly LinkKind[]>;

export type LinkType = keyof typeof kindsOf;
export const linkTypes = Object.keys(kindsOf) as [LinkType, ...LinkType[]];

type LinkProject = Pick<Project, 'id' | 'data_key'>;

const codeHash = ({ sealer }: EndUserDeps, project: LinkProject, email: string, code: string): Buffer =>
  createHmac('sha256', sealer(project).keyFor('end-user-codes')).update(`${email} ${code}`).digest();

/** A link to be sent. */
export interface LinkOrder {
  readonly userId: string;
  readonly kind: LinkKind;
  /** The address that it goes to. */
  readonly email: string;
  readonly redirectTo: string | null;
  readonly codeChallenge: string | null;
}

export interface Link {
  /** 256 random bits, for the link. */
  readonly token: string;
  /** Six digits, for typing. */
  readonly code: string;
}

const hour = 3600;
const secondsOf: Readonly<Partial<Record<LinkKind, number>>> = {
  invite: 7 * 24 * hour,
  recovery: hour / 2,
  reauthentication: hour / 6,
};
export const linkSeconds = (kind: LinkKind): number => secondsOf[kind] ?? hour;

const putSql = `
  insert into auth.one_time_tokens (user_id, kind, token_hash, code_hash, email, redirect_to, code_challenge, expires_at)
  values ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8))
  on conflict (user_id, kind) do update set token_hash = excluded.token_hash, code_hash = excluded.code_hash,
    attempts = 0, email = excluded.email, redirect_to = excluded.redirect_to,
    code_challenge = excluded.code_challenge, expires_at = excluded.expires_at`;

/** Makes a link, in the place of an earlier one of its kind. */
export const makeLink = async (deps: EndUserDeps, project: LinkProject, order: LinkOrder): Promise<Link> => {
  const { userId, kind, email, redirectTo, codeChallenge } = order;
  const link = { token: newToken('plinth_link'), code: String(randomInt(1_000_000)).padStart(6, '0') };
  await deps.authDb.secrets(project.id, putSql, [
    userId,
    kind,
    hashToken(link.token),
    codeHash(deps, project, email, link.code),
    email,
    redirectTo,
    codeChallenge,
    linkSeconds(kind),
  ]);
  return link;
};

/** The `type` by which clients name each kind. */
const typeOf: Readonly<Record<LinkKind, string>> = {
  signup: 'signup',
  invite: 'invite',
  magiclink: 'magiclink',
  recovery: 'recovery',
  email_change_current: 'email_change',
  email_change_new: 'email_change',
  reauthentication: 'reauthentication',
};

/** The address of a link's page. */
export const urlOfLink = (
  { restUrlOf }: EndUserDeps,
  ref: string,
  { kind, token }: { readonly kind: LinkKind; readonly token: string },
): { readonly url: string; readonly type: string } => {
  const type = typeOf[kind];
  return { url: `${restUrlOf(ref)}/auth/v1/verify?type=${type}&token=${token}`, type };
};

/** Where a link leads to, without using it up; undefined when it does not work (any more). */
export const redirectOfLink = async (
  { authDb }: EndUserDeps,
  projectId: string,
  token: string,
): Promise<{ readonly redirectTo: string | null } | undefined> => {
  const [row] = await authDb.secrets<{ redirect_to: string | null }>(
    projectId,
    'select redirect_to from auth.one_time_tokens where token_hash = $1 and expires_at > now()',
    [hashToken(token)],
  );
  return row && { redirectTo: row.redirect_to };
};

/** A link that was used, and where its user goes from here. */
export interface UsedLink {
  readonly userId: string;
  readonly kind: LinkKind;
  readonly redirectTo: string | null;
  readonly codeChallenge: string | null;
  /** False after the first half of a change of the address. */
  readonly isDone: boolean;
}

interface UsedRow {
  readonly user_id: string;
  readonly kind: LinkKind;
  readonly redirect_to: string | null;
  readonly code_challenge: string | null;
  readonly new_email: string | null;
}

/*
 * Uses the link up and confirms the address, in one statement. Whoever proves an address that nobody had confirmed by
 * anything but the sign-up's own link may not be the one who chose the password: it goes.
 */
const useSql = (taken: string): string => `
  with t as materialized (select * from ${taken}),
  half as materialized (
    select auth.confirm_half(t.user_id, t.kind) as new_email from t where t.kind like 'email\\_change%'),
  before as materialized (select u.id, u.email, u.email_confirmed_at is null as is_first from auth.users u, t where u.id = t.user_id),
  u as (
    update auth.users u set
      email = coalesce((select new_email from half), u.email),
      email_confirmed_at = case when (select new_email from half) is not null then now()
        else coalesce(u.email_confirmed_at, now()) end,
      is_anonymous = false,
      raw_app_meta_data = case when u.is_anonymous then u.raw_app_meta_data || '${emailProvider}'
        else u.raw_app_meta_data end,
      updated_at = now()
    from t, before b
    where u.id = t.user_id and b.id = u.id
      and case when t.kind like 'email\\_change%' then (select new_email from half) is not null
        else u.email = t.email and b.is_first end
    returning u.id, u.email, u.email_confirmed_at, u.raw_user_meta_data, u.raw_app_meta_data, u.is_anonymous,
      u.created_at, u.updated_at)
  select t.user_id, t.kind, t.redirect_to, t.code_challenge, (select new_email from half) as new_email,
    case when u.id is not null then auth.put_email(u.id, u.email, true)
      when t.kind not like 'email\\_change%' and b.email = t.email then auth.prove_email(b.id) end,
    case when u.id is not null and t.kind in ('magiclink', 'recovery') then auth.drop_password(u.id) end,
    case when u.id is not null then auth.emit('user.updated', ${userEventSql}) end
  from t left join before b on b.id = t.user_id left join u on u.id = t.user_id`;

const linkSql = useSql('auth.take_link($1, $2)');
const codeSql = useSql('auth.take_code($1, $2, $3)');

const wrongLink = (): AuthError =>
  new AuthError('otp_expired', 'The link or code is wrong, was used, or is too old.', { hint: 'Ask for a new one.' });

const used = async (
  { authDb, markDirty }: EndUserDeps,
  projectId: string,
  sql: string,
  values: readonly unknown[],
): Promise<UsedLink> => {
  const rows = await authDb.users<UsedRow>(projectId, sql, values).catch((error: unknown) => {
    if (!isUniqueEmail(error)) throw error;
    throw new AuthError('email_exists', 'There is a user with this e-mail address by now.');
  });
  const [row] = rows;
  if (row === undefined) throw wrongLink();
  markDirty(projectId);
  return {
    userId: row.user_id,
    kind: row.kind,
    redirectTo: row.redirect_to,
    codeChallenge: row.code_challenge,
    isDone: !row.kind.startsWith('email_change') || row.new_email !== null,
  };
};

/** @throws {AuthError} `otp_expired`: wrong, used and old links are alike; `email_exists` */
export const takeLink = (deps: EndUserDeps, projectId: string, token: string, type: LinkType): Promise<UsedLink> =>
  used(deps, projectId, linkSql, [hashToken(token), kindsOf[type]]);

/** @throws {AuthError} as `takeLink`; after five wrong codes the right one is dead, too */
export const takeCode = (
  deps: EndUserDeps,
  project: LinkProject,
  given: { readonly email: string; readonly code: string; readonly type: LinkType },
): Promise<UsedLink> => {
  const email = normalEmail(given.email);
  return used(deps, project.id, codeSql, [email, codeHash(deps, project, email, given.code), kindsOf[given.type]]);
};

/**
 * Uses up the code that `reauthentication` mailed to a user; five wrong ones end it.
 * @returns whether it was the right one
 */
export const takeReauthentication = async (
  deps: EndUserDeps,
  project: LinkProject,
  email: string,
  code: string,
): Promise<boolean> => {
  const values = [email, codeHash(deps, project, email, code), ['reauthentication']];
  const rows = await deps.authDb.users(project.id, 'select user_id from auth.take_code($1, $2, $3)', values);
  return rows.length > 0;
};

const resetSql = `
  select auth.set_password(u.id, $2, null),
    auth.emit('auth.password_reset', json_build_object('user_id', u.id, 'email', u.email))
  from auth.users u where u.id = $1`;

/**
 * Sets a new password by a link for those who forgot theirs, and ends all sign-ins of the user. A password that is too
 * weak leaves the link as it is.
 * @throws {AuthError} `otp_expired`, `weak_password`
 */
export const resetByLink = async (
  deps: EndUserDeps,
  project: LinkProject,
  { token, password }: { readonly token: string; readonly password: string },
): Promise<void> => {
  await requireStrong(deps, password, await deps.settings.of(project.id));
  const { userId } = await takeLink(deps, project.id, token, 'recovery');
  const sealed = await sealPassword(deps, project, userId, password);
  await deps.authDb.users(project.id, resetSql, [userId, sealed]);
  deps.markDirty(project.id);
};
