import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { EndUserDeps } from '#domain/end-users/end-users.ts';
import { AuthError } from '#domain/end-users/errors.ts';
import { type SignedInUser, requireOwner } from '#domain/end-users/profile.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { hashToken, newToken } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { accountFor, linkIdentity } from './accounts.ts';
import { githubAddress, githubUser } from './github.ts';
import { type UpstreamRequest, type UpstreamUser, upstreamAddress, upstreamUser } from './openid.ts';
import { type SealedProvider, findProvider, openSecret } from './providers.ts';

/*
 * Sign-in with another provider. The way through this folder: this file (from the request to the answer), providers.ts
 * (how a project sets them up), openid.ts and github.ts (what they speak), accounts.ts (whose user it is).
 */

export interface UpstreamDeps {
  readonly db: Queryable;
  readonly endUsers: EndUserDeps;
  readonly log: Log;
}

/** Where a sign-in leads to at last, and who may use it there. */
interface Target {
  readonly redirectTo: string;
  readonly codeChallenge: string | null;
}

/** The facts that are kept while the user is at the provider. */
interface Kept extends UpstreamRequest, Target {
  /** Half of a secret that the browser has: another one's answer signs nobody in. Null: no browser asked. */
  readonly browser: string | null;
  /** The sign-in of the user who adds an identity: once it has ended, nothing is added. Null: a sign-in is under way. */
  readonly sessionId: string | null;
}

const flowSeconds = 600;
const aboutFlow = (hash: Buffer): string => `upstream-flow:${hash.toString('hex')}`;

/** Beyond that a new one ends the oldest: refusing would let a stranger lock everybody out. */
const maxOpen = 5000;

const insertSql = `
  with over as (
    delete from auth.upstream_flows where hash in (
      select hash from auth.upstream_flows
      where expires_at < now() or (select count(*) from (select from auth.upstream_flows limit ${maxOpen}) o) >= ${maxOpen}
      order by expires_at limit 3 for update skip locked))
  insert into auth.upstream_flows (hash, provider, sealed, user_id, expires_at)
  values ($1, $2, $3, $4, now() + make_interval(secs => ${flowSeconds}))`;

const notOffered = (): AuthError =>
  new AuthError('validation_failed', 'The project offers no sign-in with this provider.', {
    hint: 'PUT /projects/{project_id}/auth/providers/{provider} sets it up.',
  });

const requireProvider = async (db: Queryable, projectId: string, name: string): Promise<SealedProvider> => {
  const provider = await findProvider(db, projectId, name);
  if (provider?.enabled !== true) throw notOffered();
  return provider;
};

const away = (log: Log, provider: string, error: unknown): AuthError => {
  log.warn({ err: error, provider }, 'a provider that users sign in with could not be asked, or answered wrongly');
  return new AuthError('unexpected_failure', 'The provider could not be asked, or its answer was not right.', {
    status: 422,
    cause: error,
  });
};

/** A request for a sign-in. */
export interface UpstreamOrder extends Target {
  readonly provider: string;
  readonly callback: string;
  /** The user who adds an identity; null: a sign-in. */
  readonly by: SignedInUser | null;
  /** Whether a browser asks, which then has a cookie to show. */
  readonly isBrowser: boolean;
}

export interface StartedUpstream {
  /** Where the browser goes. */
  readonly address: string;
  /** For a cookie; null: no browser asked. */
  readonly browser: string | null;
}

/** @throws {AuthError} `validation_failed`, `unexpected_failure` (422) */
export const startUpstream = async (
  { db, endUsers, log }: UpstreamDeps,
  project: Project,
  order: UpstreamOrder,
): Promise<StartedUpstream> => {
  const provider = await requireProvider(db, project.id, order.provider);
  const sealer = endUsers.sealer(project);
  const request: UpstreamRequest = {
    state: newToken('plinth_state'),
    nonce: randomBytes(24).toString('base64url'),
    verifier: randomBytes(32).toString('base64url'),
    callback: order.callback,
  };
  const address =
    provider.provider === 'github'
      ? githubAddress(provider, request)
      : await upstreamAddress(endUsers.egress, provider, openSecret(sealer, provider), request).catch(
          (error: unknown) => {
            throw away(log, provider.provider, error);
          },
        );
  const browser = order.isBrowser ? randomBytes(24).toString('base64url') : null;
  const { redirectTo, codeChallenge } = order;
  const kept: Kept = { ...request, redirectTo, codeChallenge, browser, sessionId: order.by?.sessionId ?? null };
  const hash = hashToken(request.state);
  await endUsers.authDb.secrets(project.id, insertSql, [
    hash,
    provider.provider,
    sealer.seal(aboutFlow(hash), JSON.stringify(kept)),
    order.by?.userId ?? null,
  ]);
  return { address, browser };
};

/** An answer of a provider, as a browser brings it. */
export interface UpstreamAnswer {
  readonly parameters: URLSearchParams;
  /** The cookie's value; null: there is none. */
  readonly browser: string | null;
}

/** The end of it: who signed in, or why not, and where the browser goes. */
export interface FinishedUpstream extends Target {
  readonly provider: string;
  /** The user who signed in, or what went wrong. */
  readonly result: { readonly userId: string } | { readonly failure: AuthError };
}

const tooOld = (): AuthError =>
  new AuthError('flow_state_not_found', 'The sign-in is over, or was begun in another browser.', {
    hint: 'Begin again in the application.',
  });

const isSame = (one: string, other: string): boolean =>
  one.length === other.length && timingSafeEqual(Buffer.from(one), Buffer.from(other));

const userFrom = (
  { endUsers }: UpstreamDeps,
  project: Project,
  provider: SealedProvider,
  answer: { readonly request: UpstreamRequest; readonly parameters: URLSearchParams },
): Promise<UpstreamUser> => {
  const secret = openSecret(endUsers.sealer(project), provider);
  const ask = provider.provider === 'github' ? githubUser : upstreamUser;
  return ask(endUsers.egress, provider, secret, answer);
};

const refusedBy = (parameters: URLSearchParams): AuthError | undefined => {
  const error = parameters.get('error');
  if (error === null) return undefined;
  const said = parameters.get('error_description') ?? error;
  return new AuthError('access_denied', said.slice(0, 300), { status: 403 });
};

const resultOf = async (
  deps: UpstreamDeps,
  project: Project,
  { provider: name, kept, userId, parameters }: Taken & { readonly parameters: URLSearchParams },
): Promise<string> => {
  const provider = await requireProvider(deps.db, project.id, name);
  const refused = refusedBy(parameters);
  if (refused !== undefined) throw refused;
  const user = await userFrom(deps, project, provider, { request: kept, parameters }).catch((error: unknown) => {
    throw away(deps.log, name, error);
  });
  if (userId === null) return accountFor(deps.endUsers, project, provider, user);
  await requireOwner(deps.endUsers, project.id, { userId, sessionId: kept.sessionId ?? '' });
  await linkIdentity(deps.endUsers, project.id, userId, { provider: name, user });
  return userId;
};

interface Taken {
  readonly provider: string;
  readonly kept: Kept;
  readonly userId: string | null;
}

/** Works once: the row is gone with it. @throws {AuthError} `flow_state_not_found` */
const takeFlow = async (
  { endUsers }: UpstreamDeps,
  project: Project,
  { parameters, browser }: UpstreamAnswer,
): Promise<Taken> => {
  const hash = hashToken(parameters.get('state') ?? '');
  const [row] = await endUsers.authDb.secrets<{ provider: string; sealed: Buffer; user_id: string | null }>(
    project.id,
    `delete from auth.upstream_flows where hash = $1 and expires_at > now() returning provider, sealed, user_id`,
    [hash],
  );
  if (row === undefined) throw tooOld();
  const kept = JSON.parse(endUsers.sealer(project).open(aboutFlow(hash), row.sealed)) as Kept;
  if (kept.browser !== null && !isSame(kept.browser, browser ?? '')) throw tooOld();
  return { provider: row.provider, kept, userId: row.user_id };
};

/**
 * Finishes a sign-in with the provider's answer. A failure is one of the application's, to which the browser goes.
 * @throws {AuthError} `flow_state_not_found`: nobody knows where it goes
 */
export const finishUpstream = async (
  deps: UpstreamDeps,
  project: Project,
  answer: UpstreamAnswer,
): Promise<FinishedUpstream> => {
  const taken = await takeFlow(deps, project, answer);
  const { redirectTo, codeChallenge } = taken.kept;
  const end = { provider: taken.provider, redirectTo, codeChallenge };
  try {
    const userId = await resultOf(deps, project, { ...taken, parameters: answer.parameters });
    return { ...end, result: { userId } };
  } catch (error) {
    if (error instanceof AuthError) return { ...end, result: { failure: error } };
    throw error;
  }
};
