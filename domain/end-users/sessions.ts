import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { tokenClaims } from './custom-claims.ts';
import type { EndUserDeps, SignInCall } from './end-users.ts';
import { AuthError } from './errors.ts';
import { readRefreshToken, refreshKey, refreshTokenOf, tokenIdOf } from './refresh-tokens.ts';
import type { TokenOwner } from './tokens.ts';
import { type EndUserAccount, accountColumns, isBanned, requireNotBanned } from './users.ts';

/**
 * `recovery`: by a link for those who forgot their password; `otp`: by another link or code of a mail; `impersonation`: a
 * member of the project's team acts as the user.
 */
export type SignInMethod = 'password' | 'otp' | 'recovery' | 'totp' | 'anonymous' | 'oauth' | 'impersonation';

/** How a user proved who they are, newest last (RFC 8176 and supabase-js). */
interface Proof {
  readonly method: SignInMethod;
  /** In seconds. */
  readonly timestamp: number;
  /** The member of the team who acts as the user. */
  readonly by?: string | undefined;
}

/** A sign-in of a user. */
interface Session {
  readonly id: string;
  /** The number of its newest refresh token, and when that was made. */
  readonly number: number;
  readonly rotatedAt: Date;
  readonly aal: 1 | 2;
  readonly amr: readonly Proof[];
}

/** The tokens of a sign-in, and its user. */
export interface SignedIn {
  readonly accessToken: string;
  readonly refreshToken: string;
  /** In seconds. */
  readonly expiresIn: number;
  readonly expiresAt: number;
  readonly user: EndUserAccount;
}

const accessSeconds = 3600;

/** A member of the team acts as a user for half an hour. */
export const impersonationSeconds = 1800;

/** No token of an impersonation outlives it, whenever it is renewed. */
const lifetimeOf = ({ amr: [first], rotatedAt }: Session): number => {
  if (first?.method !== 'impersonation') return accessSeconds;
  const left = first.timestamp + impersonationSeconds - Math.floor(rotatedAt.getTime() / 1000);
  return Math.max(1, Math.min(accessSeconds, left));
};

/** Names the sign-ins of `auth/v1` among those of clients. */
export const ownClientId = 'auth/v1';

/** The claims of an access token, before a function of the project changes them. */
export const claimsOf = (
  user: EndUserAccount,
  { id, aal, amr }: Pick<Session, 'id' | 'aal' | 'amr'>,
): Record<string, unknown> => ({
  client_id: ownClientId,
  session_id: id,
  aal: `aal${aal}`,
  amr,
  is_anonymous: user.is_anonymous,
  ...(user.email !== null && { email: user.email }),
  app_metadata: user.raw_app_meta_data,
  user_metadata: user.raw_user_meta_data,
});

/** The tokens of a session, as its user gets them. */
const tokensOf = async (
  deps: EndUserDeps,
  { project, urls }: SignInCall,
  user: EndUserAccount,
  session: Session,
): Promise<SignedIn> => {
  const key = refreshKey(deps, project);
  const claims = await tokenClaims(deps, project, user, claimsOf(user, session));
  const expiresIn = lifetimeOf(session);
  const accessToken = await deps.signer.sign(project, {
    ...urls,
    subject: user.id,
    expiresIn,
    issuedAt: session.rotatedAt,
    jti: tokenIdOf(key, session),
    claims,
  });
  return {
    accessToken,
    refreshToken: refreshTokenOf(key, session),
    expiresIn,
    expiresAt: Math.floor(session.rotatedAt.getTime() / 1000) + expiresIn,
    user,
  };
};

const maxUserAgentLength = 300;

/** Sign-ins of one user: a new one ends the oldest beyond that. */
const maxSessions = 100;

/** How a sign-in begins. */
export interface NewSession {
  readonly user: EndUserAccount;
  readonly method: SignInMethod;
  /** The password that was checked: one that was changed meanwhile lets nobody in. Null: it was not asked for. */
  readonly passwordSealed: Buffer | null;
  /** Counts of failed tries to forget: of the e-mail address, and of the network. */
  readonly counted: readonly [Buffer, Buffer] | null;
  /** The code that is traded for it, and works once. */
  readonly codeHash?: Buffer;
}

/*
 * The row of the account is locked, so that a sign-in with a password that is being changed waits, and then fails.
 * `for share` would deadlock with the update of the same row by another sign-in.
 */
const beginSql = `
  with account as (
    select a.user_id from auth.accounts a join auth.users u on u.id = a.user_id
    where a.user_id = $2 and ($3::bytea is null or a.password_sealed = $3)
      and (u.banned_until is null or u.banned_until <= now())
    for no key update of a),
  code as (
    update auth.flow_codes f set used_at = now(), session_id = $1
    where f.hash = $12 and f.used_at is null and f.expires_at > now() and f.user_id = $2 returning f.hash),
  session as (
    insert into auth.sessions (id, user_id, amr, ip, user_agent, rotated_at)
    select $1, user_id, $4, $5, $6, $7 from account where $12::bytea is null or exists (select from code)
    returning id, user_id),
  earlier as (
    delete from auth.sessions s using session n where s.user_id = n.user_id and s.id in (
      select o.id from auth.sessions o where o.user_id = $2 and o.client_id is null and o.id <> $1 order by o.created_at desc, o.id desc
      offset case when $8 then 0 else ${maxSessions - 1} end)),
  noted as (update auth.accounts a set last_sign_in_at = $7 from session s where a.user_id = s.user_id),
  given_back as (
    update auth.counts c set number = greatest(c.number - 1, 0) from session where c.key = $10 returning c.key),
  forgotten as (
    delete from auth.counts c using session where c.key = $9 and (select count(*) from given_back) >= 0)
  select id, auth.emit('auth.login', $11) from session`;

/** Begins a sign-in. @returns undefined when the password or the user has changed meanwhile, or the code was used */
export const tryBeginSession = async (
  deps: EndUserDeps,
  call: SignInCall,
  { user, method, passwordSealed, counted, codeHash }: NewSession,
): Promise<SignedIn | undefined> => {
  const { project, origin } = call;
  const settings = await deps.settings.of(project.id);
  const rotatedAt = new Date();
  const amr = [{ method, timestamp: Math.floor(rotatedAt.getTime() / 1000) }];
  const session: Session = { id: newId(), number: 0, rotatedAt, aal: 1, amr };
  const signedIn = { ...user, last_sign_in_at: rotatedAt };
  const tokens = await tokensOf(deps, call, signedIn, session);
  const started = await deps.authDb.secrets<{ id: string }>(project.id, beginSql, [
    session.id,
    user.id,
    passwordSealed,
    JSON.stringify(amr),
    origin.ip,
    origin.userAgent?.slice(0, maxUserAgentLength) ?? null,
    rotatedAt,
    settings.session.single,
    counted?.[0] ?? null,
    counted?.[1] ?? null,
    JSON.stringify({ user_id: user.id, email: user.email, method, session_id: session.id }),
    codeHash ?? null,
  ]);
  if (started.length === 0) return undefined;
  deps.markDirty(project.id);
  return tokens;
};

/** Begins a sign-in. @throws {AuthError} `invalid_credentials` when the password or the user has changed meanwhile */
export const beginSession = async (
  deps: EndUserDeps,
  call: SignInCall,
  session: Omit<NewSession, 'codeHash'>,
): Promise<SignedIn> => {
  const signedIn = await tryBeginSession(deps, call, session);
  if (signedIn !== undefined) return signedIn;
  throw new AuthError('invalid_credentials', 'The user has changed meanwhile. Sign in again.');
};

/*
 * It is no sign-in of the user's own: it ends none, raises no event and no time of the last sign-in. The earlier one of
 * a team ends, so that there is one at most for each user.
 */
const impersonateSql = `
  with account as (
    select a.user_id from auth.accounts a join auth.users u on u.id = a.user_id
    where a.user_id = $2 and (u.banned_until is null or u.banned_until <= now())
    for no key update of a),
  earlier as (
    delete from auth.sessions s using account a
    where s.user_id = a.user_id and s.not_after is not null and s.amr -> 0 ->> 'method' = 'impersonation')
  insert into auth.sessions (id, user_id, aal, amr, ip, user_agent, rotated_at, not_after)
  select $1, user_id, $3, $4, $5, $6, $7, $7::timestamptz + make_interval(secs => ${impersonationSeconds}) from account
  returning id`;

/**
 * Begins a sign-in of half an hour for a member of the team who acts as a user. It has the user's level of assurance: who
 * has a second factor, or needs one, is shown with it.
 * @param by the member's id
 * @throws {AuthError} `user_banned`
 */
export const beginImpersonation = async (
  deps: EndUserDeps,
  call: SignInCall,
  user: EndUserAccount,
  by: string,
): Promise<SignedIn> => {
  const { project, origin } = call;
  const { mfa } = await deps.settings.of(project.id);
  const isStrong = mfa === 'required' || user.factors.some(({ status }) => status === 'verified');
  const rotatedAt = new Date();
  const amr: readonly Proof[] = [{ method: 'impersonation', timestamp: Math.floor(rotatedAt.getTime() / 1000), by }];
  const session: Session = { id: newId(), number: 0, rotatedAt, aal: isStrong ? 2 : 1, amr };
  const tokens = await tokensOf(deps, call, user, session);
  const started = await deps.authDb.secrets<{ id: string }>(project.id, impersonateSql, [
    session.id,
    user.id,
    session.aal,
    JSON.stringify(amr),
    origin.ip,
    origin.userAgent?.slice(0, maxUserAgentLength) ?? null,
    rotatedAt,
  ]);
  if (started.length > 0) return tokens;
  throw new AuthError('user_banned', 'The user is banned.');
};

/*
 * Only one of two sign-ins with the same code gets through: the factor's row is locked, and its last step rises. The
 * first code of a factor ends the sign-ins that were begun without one.
 */
const raiseSql = `
  with before as (select id, verified_at is null as is_first from auth.factors where id = $1 and user_id = $2),
  factor as (
    update auth.factors f set last_step = $3, verified_at = coalesce(f.verified_at, now()), updated_at = now()
    where f.id = $1 and f.user_id = $2 and (f.last_step is null or f.last_step < $3) returning f.id),
  answered as (delete from auth.challenges c using factor where c.id = $4),
  session as (
    update auth.sessions s set aal = 2, amr = s.amr || $6::jsonb, refresh_number = s.refresh_number + 1, rotated_at = $7
    from factor where s.id = $5 and s.user_id = $2 returning s.refresh_number, s.amr),
  others as (
    delete from auth.sessions o using session, before b
    where b.is_first and o.user_id = $2 and o.id <> $5 and o.aal = 1)
  select refresh_number, amr from session`;

/**
 * Makes a sign-in one with two factors, by a code whose step was computed.
 * @returns undefined when the code was used, or the sign-in has ended meanwhile
 */
export const raiseSession = async (
  deps: EndUserDeps,
  call: SignInCall,
  user: EndUserAccount,
  by: { readonly sessionId: string; readonly factorId: string; readonly challengeId: string; readonly step: number },
): Promise<SignedIn | undefined> => {
  const rotatedAt = new Date();
  const proof: Proof = { method: 'totp', timestamp: Math.floor(rotatedAt.getTime() / 1000) };
  const [row] = await deps.authDb.secrets<{ refresh_number: number; amr: readonly Proof[] }>(
    call.project.id,
    raiseSql,
    [by.factorId, user.id, by.step, by.challengeId, by.sessionId, JSON.stringify([proof]), rotatedAt],
  );
  if (row === undefined) return undefined;
  const { refresh_number: number, amr } = row;
  return tokensOf(deps, call, user, { id: by.sessionId, number, rotatedAt, aal: 2, amr });
};

const refusedToken = (): AuthError =>
  new AuthError('refresh_token_not_found', 'The refresh token is not valid, or was used before.', {
    hint: 'Sign in again.',
  });

type Refreshed = EndUserAccount & {
  readonly number: number;
  readonly rotated_at: Date;
  readonly aal: 1 | 2;
  readonly amr: readonly Proof[];
};

/**
 * Trades a refresh token for new tokens. The same one again within 30 s gets the same answer, as long as its successor
 * was not used; later it was copied, and the sign-in ends.
 * @throws {AuthError} `refresh_token_not_found`, `user_banned`
 */
export const refreshSession = async (deps: EndUserDeps, call: SignInCall, token: string): Promise<SignedIn> => {
  const { project } = call;
  const shown = readRefreshToken(refreshKey(deps, project), token);
  if (shown === null) throw refusedToken();
  const { session } = await deps.settings.of(project.id);
  const [row] = await deps.authDb.secrets<Refreshed>(
    project.id,
    `select r.number, r.rotated_at, r.aal, r.amr, ${accountColumns}
     from auth.refresh($1, $2, $3, $4, $5, null) r join auth.users u on u.id = r.user_id
       left join auth.accounts a on a.user_id = u.id`,
    [shown.id, shown.number, session.idle_s, session.absolute_s, session.single],
  );
  if (row === undefined) throw refusedToken();
  const { number, rotated_at: rotatedAt, aal, amr, ...user } = row;
  if (isBanned(user)) await endSessions(deps, project.id, user.id, null);
  requireNotBanned(user, 400);
  return tokensOf(deps, call, user, { id: shown.id, number, rotatedAt, aal, amr });
};

/** Ends all sign-ins of a user but one. */
export const endSessions = async (
  { authDb }: EndUserDeps,
  projectId: string,
  userId: string,
  but: string | null,
): Promise<void> => {
  await authDb.secrets(projectId, 'select auth.end_sessions($1, $2)', [userId, but]);
};

/** Ends one sign-in of a user. */
export const endSession = async (
  { authDb }: EndUserDeps,
  projectId: string,
  { userId, sessionId }: { readonly userId: string; readonly sessionId: string },
): Promise<void> => {
  await authDb.secrets(projectId, 'delete from auth.sessions where id = $1 and user_id = $2', [sessionId, userId]);
};

const factorRequired = (): ServiceError =>
  new ServiceError('forbidden', 'The project requires a second factor.', {
    hint: 'Set one up and verify a code of it: until then the sign-in may do nothing else.',
  });

/** A project without users of ours: it has a schema auth of its own, or is not upgraded yet. */
const hasNoUsers = (error: unknown): boolean =>
  error instanceof ServiceError && (error.code === 'conflict' || error.code === 'not_found');

interface Standing {
  readonly banned_until: Date | null;
  readonly lasts: boolean;
}

/**
 * Whether a user may still act by a token: not banned or deleted, and the token's sign-in lasts. A subject that is no
 * user of ours may act by a token that the project made.
 * @throws {ServiceError} `forbidden` when the project requires a second factor, and the sign-in has none
 */
export const isTokenLive = async (
  { authDb, settings }: Pick<EndUserDeps, 'authDb' | 'settings'>,
  projectId: string,
  { subject, sessionId, hasFactor }: TokenOwner,
): Promise<boolean> => {
  const { mfa } = await settings.of(projectId);
  if (mfa === 'required' && sessionId !== null && !hasFactor) throw factorRequired();
  const standing = authDb.secrets<Standing>(
    projectId,
    `select u.banned_until,
       $2::uuid is null or exists (select from auth.sessions s where s.id = $2 and s.user_id = u.id) as lasts
     from auth.users u where u.id = $1`,
    [subject, sessionId],
  );
  const [row] = await standing.catch((error: unknown) => {
    if (hasNoUsers(error)) return [];
    throw error;
  });
  return row === undefined ? sessionId === null : row.lasts && !isBanned(row);
};
