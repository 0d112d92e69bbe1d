import { type ControlDb, type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken, newId, newToken } from '#lib/ids.ts';
import { deleteChallenges } from './codes.ts';
import type { User, UserWithPassword } from '#domain/users/users.ts';
import { noteAccount } from '#domain/audit/audit.ts';
import type { Actor } from '#domain/audit/actor.ts';

/** Seconds. The contract's `expires_in`. */
export const accessTokenSeconds = 3600;
const refreshTokenSeconds = 30 * 24 * 3600;

/** A cookie that nobody uses ends after this, and any cookie after so many days. */
export const cookieHours = 12;
export const cookieDays = 30;

const accessTokenPrefix = 'plinth_at';
const refreshTokenPrefix = 'plinth_rt';
const cookiePrefix = 'plinth_cs';

export interface Tokens {
  readonly access_token: string;
  readonly refresh_token: string;
}

export interface SignInOrigin {
  readonly ip: string;
  readonly userAgent: string | undefined;
}

/** Gives a new sign-in its tokens. */
type Issue<T> = (db: Queryable, signInId: string) => Promise<T>;

/** The value of a browser's cookie. */
const issueCookie: Issue<string> = async (db, signInId) => {
  const cookie = newToken(cookiePrefix);
  await db.query(
    `insert into sign_in_tokens (hash, sign_in_id, kind, expires_at)
     values ($1, $2, 'cookie', now() + make_interval(hours => ${cookieHours}))`,
    [hashToken(cookie), signInId],
  );
  return cookie;
};

const issueTokens: Issue<Tokens> = async (db, signInId) => {
  const tokens = { access_token: newToken(accessTokenPrefix), refresh_token: newToken(refreshTokenPrefix) };
  await db.query(
    `insert into sign_in_tokens (hash, sign_in_id, kind, expires_at) values
       ($1, $3, 'access', now() + make_interval(secs => $4)),
       ($2, $3, 'refresh', now() + make_interval(secs => $5))`,
    [
      hashToken(tokens.access_token),
      hashToken(tokens.refresh_token),
      signInId,
      accessTokenSeconds,
      refreshTokenSeconds,
    ],
  );
  return tokens;
};

/** Through what somebody signs in. */
type SignInKind = 'api' | 'dashboard' | 'device';

/** The kind of a sign-in and the tokens that it begins with. */
export interface SignInForm<T> {
  readonly kind: SignInKind;
  readonly issue: Issue<T>;
}

/** Tokens for programs. */
export const tokenForm: SignInForm<Tokens> = { kind: 'api', issue: issueTokens };
/** A cookie for a browser. */
export const cookieForm: SignInForm<string> = { kind: 'dashboard', issue: issueCookie };
/** Tokens for a device whose user approved it elsewhere. */
export const deviceForm: SignInForm<Tokens> = { kind: 'device', issue: issueTokens };

/**
 * Begins a sign-in: a family of tokens that ends as one. Needs a transaction.
 * @returns undefined when the user is gone or the password was changed since it was checked: the row lock makes this
 * wait for a change that is under way, so that no sign-in with the old password outlives a reset
 */
export const signIn = async <T>(
  db: Queryable,
  user: Pick<UserWithPassword, 'id' | 'password_hash'>,
  origin: SignInOrigin,
  { kind, issue }: SignInForm<T>,
): Promise<{ readonly id: string; readonly tokens: T } | undefined> => {
  const started = await maybeOne(
    db.query<{ id: string }>(
      `insert into sign_ins (id, user_id, ip, user_agent, kind)
       select $1, id, $4, $5, $6 from users where id = $2 and password_hash = $3 for share
       returning id`,
      [newId(), user.id, user.password_hash, origin.ip, origin.userAgent ?? null, kind],
    ),
  );
  return started && { id: started.id, tokens: await issue(db, started.id) };
};

/** Ends a sign-in: none of its tokens works any more. */
export const endSignIn = async (db: Queryable, signInId: string): Promise<void> => {
  await db.query('update sign_ins set ended_at = now() where id = $1 and ended_at is null', [signInId]);
};

/** Sign-ins that wait for a second factor end, too, and personal access tokens: who made them is not known. */
export const endAllSignIns = async (db: Queryable, userId: string): Promise<void> => {
  await deleteChallenges(db, userId);
  await db.query(`delete from sign_ins where user_id = $1 and kind = 'personal'`, [userId]);
  await db.query('update sign_ins set ended_at = now() where user_id = $1 and ended_at is null', [userId]);
};

interface RefreshRow extends User {
  readonly sign_in_id: string;
  readonly used: boolean;
}

const refused = (): ServiceError =>
  new ServiceError('unauthenticated', 'The refresh token is not valid.', { hint: 'Sign in again.' });

/**
 * Trades a refresh token for new tokens. A token that was used before was copied by somebody: the whole sign-in ends.
 * @throws {ServiceError} `unauthenticated`
 */
export const refresh = async (db: ControlDb, token: string): Promise<{ tokens: Tokens; user: User }> => {
  const done = await db.transaction(async (tx) => {
    const row = await maybeOne(
      tx.query<RefreshRow>(
        `select u.id, u.email, u.full_name, u.avatar_url, u.created_at, t.sign_in_id, t.used_at is not null as used
         from sign_in_tokens t join sign_ins s on s.id = t.sign_in_id join users u on u.id = s.user_id
         where t.hash = $1 and t.kind = 'refresh' and t.expires_at > now() and s.ended_at is null
         for update of t`,
        [hashToken(token)],
      ),
    );
    if (row === undefined) return null;
    if (row.used) {
      await endSignIn(tx, row.sign_in_id);
      return null;
    }
    await tx.query('update sign_in_tokens set used_at = now() where hash = $1', [hashToken(token)]);
    await tx.query('update sign_ins set last_seen_at = now() where id = $1', [row.sign_in_id]);
    const { sign_in_id, used: _used, ...user } = row;
    return { tokens: await issueTokens(tx, sign_in_id), user };
  });
  if (done === null) throw refused();
  return done;
};

const over = `expires_at < now() - interval '1 day'`;

/** Removes tokens that can no longer be used, and sign-ins with their last token; a bounded number at a time. */
export const sweepSignIns = async (db: Queryable): Promise<void> => {
  await db.query(
    `with gone as (
       delete from sign_in_tokens where hash = any (array(
         select hash from sign_in_tokens where ${over} limit 5000 for update skip locked))
       returning sign_in_id)
     delete from sign_ins s where s.id in (select sign_in_id from gone)
       and not exists (select from sign_in_tokens t where t.sign_in_id = s.id and not t.${over})`,
  );
  await db.query(
    `delete from email_confirmations where hash = any (array(
       select hash from email_confirmations where expires_at < now() - interval '1 day'
       limit 5000 for update skip locked))`,
  );
  await db.query(
    `delete from password_resets where hash = any (array(
       select hash from password_resets where expires_at < now() limit 5000 for update skip locked))`,
  );
};

/** A sign-in as its user sees it. */
interface Session {
  readonly id: string;
  /** Through what: `api`, `dashboard` or `device`. */
  readonly kind: string;
  readonly current: boolean;
  readonly created_at: Date;
  /** When it was started or last renewed: exact to the hour that an access token lasts. */
  readonly last_seen_at: Date;
  readonly ip: string | null;
  readonly user_agent: string | null;
}

// Personal access tokens have a list of their own.
const living = `s.user_id = $1 and s.kind <> 'personal' and s.ended_at is null and exists (
  select from sign_in_tokens t where t.sign_in_id = s.id and t.expires_at > now() and t.used_at is null)`;

interface SessionsOf {
  readonly userId: string;
  /** The caller's own sign-in. */
  readonly signInId: string;
}

/** The user's sign-ins that can still be used, the one used last first. */
export const listSessions = async (
  db: Queryable,
  { userId, signInId }: SessionsOf,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ sessions: Session[]; total: number }> => {
  const sessions = await db.query<Session>(
    `select s.id, s.kind, s.id = $2 as current, s.created_at, coalesce(s.last_seen_at, s.created_at) as last_seen_at,
       s.ip, s.user_agent
     from sign_ins s where ${living} order by last_seen_at desc, s.id desc limit $3 offset $4`,
    [userId, signInId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>(`select count(*) as total from sign_ins s where ${living}`, [userId]),
  );
  return { sessions, total };
};

/**
 * Ends one sign-in of the user: none of its tokens works any more. Needs a transaction.
 * @throws {ServiceError} `not_found`
 */
export const endSession = async (
  db: Queryable,
  { userId, id, actor }: { readonly userId: string; readonly id: string; readonly actor: Actor },
): Promise<void> => {
  const ended = await db.query(
    `update sign_ins set ended_at = now()
     where id = $1 and user_id = $2 and kind <> 'personal' and ended_at is null returning id`,
    [id, userId],
  );
  if (ended.length === 0) throw notFound('sign-in');
  await noteAccount(db, userId, { actor, action: 'sign_in.end', targetId: id });
};

/** Ends all sign-ins of the user but the caller's own, and leaves personal access tokens. */
export const endOtherSessions = async (db: Queryable, { userId, signInId }: SessionsOf): Promise<void> => {
  await db.query(
    `update sign_ins set ended_at = now()
     where user_id = $1 and id <> $2 and kind <> 'personal' and ended_at is null`,
    [userId, signInId],
  );
};
