import { readRefreshToken, refreshKey, refreshTokenOf, tokenIdOf } from '#domain/end-users/refresh-tokens.ts';
import { emailProvedSql, isBanned, userColumns } from '#domain/end-users/users.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken } from '#lib/ids.ts';
import { type Amr, type ClaimedUser, aalOf } from './claims.ts';
import type { Issuer, OAuthDeps } from './oauth.ts';

/*
 * Sign-ins of clients: rows of auth.sessions, as those of `auth/v1` are, with the client and its grant. Their refresh
 * tokens are derived in the same way (decision 055), and the end of the row ends all tokens.
 */

type SessionDeps = Pick<OAuthDeps, 'endUsers'>;

/** The facts of a sign-in that all of its tokens repeat. */
interface SessionFacts {
  readonly scope: string;
  /** Seconds since 1970: when the user proved who they are. */
  readonly auth_time: number;
  readonly amr: Amr;
  /** The client's name for the browser's session, for its log-out. */
  readonly sid?: string | undefined;
  readonly nonce?: string | undefined;
}

export interface NewClientSession extends SessionFacts {
  readonly id: string;
  readonly userId: string;
  readonly clientId: string;
  readonly grantId: string;
}

/** Sign-ins of one user at one client: a new one ends the oldest beyond that. */
const maxSessions = 100;

/*
 * Only while the grant lasts: when a code is used twice at once, one exchange goes on and the other one deletes the grant
 * (store.ts). The tokens of the first are handed out then, and belong to nothing.
 */
const beginSql = `
  with g as (select from auth.openid where model = 'Grant' and id = $6 for key share),
  s as (
    insert into auth.sessions (id, user_id, client_id, grant_id, openid, aal, amr, rotated_at)
    select $1, u.id, $3, $4, $5, $7, $8, $9 from auth.users u where u.id = $2 and exists (select from g) returning id)
  delete from auth.sessions where id in (
    select o.id from auth.sessions o, s where o.user_id = $2 and o.client_id = $3 order by o.created_at desc, o.id desc
    offset case when $10 then 0 else ${maxSessions - 1} end)`;

const methodNames = { pwd: 'password', otp: 'totp' } as const;

/** The proofs as sign-ins of `auth/v1` have them. */
const proofsOf = ({ amr, auth_time: at }: SessionFacts): unknown[] =>
  amr.flatMap((name) => (name === 'mfa' ? [] : [{ method: methodNames[name], timestamp: at }]));

/** Begins a sign-in of a client. @returns its first refresh token */
export const beginClientSession = async (
  { endUsers }: SessionDeps,
  { project }: Issuer,
  session: NewClientSession,
): Promise<string> => {
  const { id, userId, clientId, grantId, ...facts } = session;
  const { session: lifetimes } = await endUsers.settings.of(project.id);
  await endUsers.authDb.secrets(project.id, beginSql, [
    id,
    userId,
    clientId,
    grantId,
    JSON.stringify(facts),
    hashToken(grantId),
    aalOf(facts.amr),
    JSON.stringify(proofsOf(facts)),
    new Date(),
    lifetimes.single,
  ]);
  return refreshTokenOf(refreshKey(endUsers, project), { id, number: 0 });
};

/** A sign-in of a client whose token was traded for the next one. */
export interface RefreshedSession {
  readonly id: string;
  readonly user: ClaimedUser;
  readonly facts: SessionFacts;
  readonly refreshToken: string;
  /** The `jti` of the access token: the same when the trade is repeated. */
  readonly jti: string;
  readonly rotatedAt: Date;
}

type RefreshedRow = ClaimedUser & {
  readonly number: number;
  readonly rotated_at: Date;
  readonly openid: SessionFacts;
};

/**
 * Trades a refresh token of a client for the next one, as `refreshSession` does for `auth/v1`.
 * @returns undefined when it is not one of the client's, or is over
 */
export const refreshClientSession = async (
  { endUsers }: SessionDeps,
  { project }: Issuer,
  clientId: string,
  token: string,
): Promise<RefreshedSession | undefined> => {
  const key = refreshKey(endUsers, project);
  const shown = readRefreshToken(key, token);
  if (shown === null) return undefined;
  const { session } = await endUsers.settings.of(project.id);
  const [row] = await endUsers.authDb.secrets<RefreshedRow>(
    project.id,
    `select r.number, r.rotated_at, r.openid, ${userColumns}, ${emailProvedSql} as is_email_proved
     from auth.refresh($1, $2, $3, $4, $5, $6) r join auth.users u on u.id = r.user_id`,
    [shown.id, shown.number, session.idle_s, session.absolute_s, session.single, clientId],
  );
  if (row === undefined || isBanned(row)) return undefined;
  const { number, rotated_at: rotatedAt, openid: facts, ...user } = row;
  const next = { id: shown.id, number };
  return { id: shown.id, user, facts, rotatedAt, refreshToken: refreshTokenOf(key, next), jti: tokenIdOf(key, next) };
};

/** The sign-in of an access token, as far as its client and grant go. */
export interface FoundSession {
  readonly client_id: string;
  readonly grant_id: string;
}

/** @returns undefined when the sign-in has ended, or its user was banned */
export const findClientSession = async (
  { endUsers }: SessionDeps,
  projectId: string,
  { sessionId, userId }: { readonly sessionId: string; readonly userId: string },
): Promise<FoundSession | undefined> => {
  const [row] = await endUsers.authDb.secrets<FoundSession>(
    projectId,
    `select s.client_id, s.grant_id from auth.sessions s join auth.users u on u.id = s.user_id
     where s.id = $1 and u.id = $2 and s.client_id is not null and (u.banned_until is null or u.banned_until <= now())`,
    [sessionId, userId],
  );
  return row;
};

/** Whether there is such a sign-in, of whatever client. */
export const sessionExists = async (
  { endUsers }: SessionDeps,
  projectId: string,
  sessionId: string,
): Promise<boolean> => {
  const rows = await endUsers.authDb.secrets(projectId, 'select from auth.sessions where id = $1', [sessionId]);
  return rows.length > 0;
};

/** Ends one sign-in of a client. @returns whether there was one */
export const endClientSession = async (
  { endUsers }: SessionDeps,
  projectId: string,
  { sessionId, clientId }: { readonly sessionId: string; readonly clientId: string },
): Promise<boolean> => {
  const rows = await endUsers.authDb.secrets(
    projectId,
    'delete from auth.sessions where id = $1 and client_id = $2 returning 1',
    [sessionId, clientId],
  );
  return rows.length > 0;
};

/** Ends all sign-ins of a client. */
export const endSessionsOfClient = async (
  { endUsers }: SessionDeps,
  projectId: string,
  clientId: string,
): Promise<void> => {
  await endUsers.authDb
    .secrets(projectId, 'delete from auth.sessions where client_id = $1', [clientId])
    .catch((error: unknown) => {
      // A project with a schema auth of its own has no sign-ins.
      if (!(error instanceof ServiceError && error.code === 'conflict')) throw error;
    });
};
