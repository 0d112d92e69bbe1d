import type { Context } from 'koa';
import {
  type Credential,
  type GivenToken,
  type SignedInAt,
  findSignedIn,
  findSignedInAt,
} from '#domain/accounts/callers.ts';
import { type Scope, includes, roleWithin, scopeFor } from '#domain/accounts/scopes.ts';
import type { RecalledMember } from '#domain/functions/functions.ts';
import { type Organization, type Role, atLeast, organizationFor } from '#domain/teams/store.ts';
import { addLogContext } from '#lib/context.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken } from '#lib/ids.ts';
import type { Access, InProject, SignedIn } from '../access.ts';
import type { AnyCaller, OrganizationCall, ProjectCall, SignInCall } from '../call.ts';
import type { Deps } from '../deps.ts';
import { authenticateByKey } from './by-key.ts';
import { authenticateForFunction } from './for-function.ts';
import { bearerOf, unauthenticated } from './credentials.ts';
import { requireOperator } from './operator.ts';
import { sessionCookieOf } from './session-cookie.ts';

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

/** The token of a request: the Bearer, else the cookie of the dashboard. A bad one beside a good cookie is refused. */
const givenToken = (ctx: Context, { config }: Pick<Deps, 'config'>): GivenToken => {
  const isHeaderGiven = ctx.get('authorization') !== '';
  const bearer = bearerOf(ctx);
  if (bearer !== undefined) return { hash: hashToken(bearer), isCookie: false };
  const cookie = isHeaderGiven ? undefined : sessionCookieOf(ctx, config);
  if (cookie !== undefined) return { hash: hashToken(cookie), isCookie: true };
  throw unauthenticated('This call needs an access token (Authorization: Bearer).', isHeaderGiven);
};

const invalidToken = (): ServiceError => unauthenticated('The access token is not valid or has expired.', true);

const requireScope = ({ scope }: Credential, min: Scope): void => {
  if (includes(scope, min)) return;
  throw new ServiceError('forbidden', `This needs a token of the scope ${min}; this one has ${scope}.`);
};

/**
 * The role that the caller acts in: the member's, or less where the token's scope allows less.
 * @throws {ServiceError} `forbidden`
 */
const requireRole = (role: Role, credential: Credential, min: Role): Role => {
  if (!atLeast(role, min)) throw new ServiceError('forbidden', `This needs the role ${min}; yours is ${role}.`);
  const acting = roleWithin(role, credential.scope);
  if (!atLeast(acting, min)) requireScope(credential, scopeFor(min));
  return acting;
};

const requireSignIn = (access: SignedIn, credential: Credential): void => {
  if (access.byCookie && credential.kind !== 'cookie') {
    throw new ServiceError('forbidden', 'This is for people who are signed in to the dashboard.');
  }
  if (credential.kind !== 'personal') return;
  if (access.scope === undefined) {
    throw new ServiceError('forbidden', 'A personal access token cannot do this.', { hint: 'Sign in.' });
  }
  requireScope(credential, access.scope);
};

const authenticateUser = async (ctx: Context, { db, credentialUse, config }: Deps): Promise<SignInCall> => {
  const signedIn = await findSignedIn(db, givenToken(ctx, { config }));
  if (signedIn === undefined) throw invalidToken();
  credentialUse.note(signedIn);
  return signedIn;
};

/** @throws {ServiceError} `unauthenticated`, `not_found`, `forbidden` */
const requireMember = (found: SignedInAt | undefined, min: Role): ProjectCall => {
  if (found === undefined) throw invalidToken();
  const { user, signInId, credential, membership } = found;
  if (membership === null) throw notFound('project');
  const { project, role } = membership;
  addLogContext({ projectId: project.id });
  return { user, signInId, credential, project, role: requireRole(role, credential, min) };
};

/** A member of the project of the path, who is recalled where the access and the request allow it. */
const authenticateMember = async (
  ctx: Context,
  { db, members, credentialUse, config }: Deps,
  given: string,
  { role, checkedByInsert }: InProject,
): Promise<ProjectCall> => {
  const [token, projectId] = [givenToken(ctx, { config }), uuid.test(given) ? given : null];
  const noted = (found: SignedInAt | undefined): SignedInAt | undefined => {
    if (found !== undefined) credentialUse.note(found);
    return found;
  };
  // With an Idempotency-Key the answer of an earlier request may be repeated, without an insert that checks the caller.
  const isRecalled = checkedByInsert === true && ctx.get('idempotency-key') === '';
  if (!isRecalled) return requireMember(noted(await findSignedInAt(db, token, projectId)), role);
  const withMember = (found: SignedInAt | undefined): ProjectCall & { readonly member: RecalledMember } => {
    const call = requireMember(found, role);
    const assumed = { tokenHash: token.hash, role: found?.membership?.role ?? call.role, plan: call.project.plan };
    return { ...call, member: { assumed, renew } };
  };
  const renew: RecalledMember['renew'] = async (queryable) =>
    withMember(await members.read(queryable, token, projectId));
  return withMember(noted(members.recall(token, projectId) ?? (await members.read(db, token, projectId))));
};

/**
 * The organization that a user acts in: the one that is named, else the one of the token, else the user's own.
 * @throws {ServiceError} `not_found`, `forbidden`
 */
export const requireOrganization = async (
  db: Queryable,
  { user, credential }: SignInCall,
  wanted: string | undefined,
  min: Role,
): Promise<{ readonly organization: Organization; readonly role: Role }> => {
  const isElsewhere = credential.orgId !== null && wanted !== undefined && wanted !== credential.orgId;
  const found = isElsewhere ? undefined : await organizationFor(db, user.id, wanted ?? credential.orgId ?? undefined);
  if (found === undefined) throw notFound('organization');
  const { role, ...organization } = found;
  return { organization, role: requireRole(role, credential, min) };
};

const authenticateInOrganization = async (ctx: Context, deps: Deps, min: Role): Promise<OrganizationCall> => {
  const signIn = await authenticateUser(ctx, deps);
  return { ...signIn, ...(await requireOrganization(deps.db, signIn, ctx.get('x-org-id') || undefined, min)) };
};

const authenticateSignIn = async (ctx: Context, deps: Deps, access: SignedIn): Promise<SignInCall> => {
  const signIn = await authenticateUser(ctx, deps);
  requireSignIn(access, signIn.credential);
  return signIn;
};

/**
 * Finds out who calls and whether they may.
 * @throws {ServiceError} `unauthenticated`, `forbidden` (role, or a change asked by another page), `not_found` (not a
 * member)
 */
export const authenticate = async (
  access: Access,
  ctx: Context,
  deps: Deps,
  params: Readonly<Record<string, string>>,
): Promise<AnyCaller> => {
  switch (access.kind) {
    case 'everyone':
      return {};
    case 'signed-in':
      return authenticateSignIn(ctx, deps, access);
    case 'project':
      return authenticateMember(ctx, deps, params['project_id'] ?? '', access);
    case 'organization':
      return authenticateInOrganization(ctx, deps, access.role);
    case 'key':
      if (access.orPublic) return authenticateForFunction(ctx, deps, access, params);
      return authenticateByKey(ctx, deps, access, { ref: params['ref'] });
    case 'operator':
      requireOperator(ctx, deps);
      return {};
  }
};
