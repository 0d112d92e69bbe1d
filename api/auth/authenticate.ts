import type { Context } from 'koa';
import { type SignedInAt, findSignedIn, findSignedInAt } from '#domain/accounts/callers.ts';
import type { RecalledMember } from '#domain/functions/functions.ts';
import { type Role, atLeast, organizationFor } from '#domain/teams/store.ts';
import { addLogContext } from '#lib/context.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken } from '#lib/ids.ts';
import type { Access, InProject } from '../access.ts';
import type { AnyCaller, OrganizationCall, ProjectCall, SignInCall } from '../call.ts';
import type { Deps } from '../deps.ts';
import { authenticateByKey } from './by-key.ts';
import { authenticateForFunction } from './for-function.ts';
import { bearerOf, unauthenticated } from './credentials.ts';
import { requireOperator } from './operator.ts';

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

const tokenHash = (ctx: Context): Buffer => {
  const token = bearerOf(ctx);
  if (token === undefined) {
    throw unauthenticated('This call needs an access token (Authorization: Bearer).', ctx.get('authorization') !== '');
  }
  return hashToken(token);
};

const invalidToken = (): ServiceError => unauthenticated('The access token is not valid or has expired.', true);

const requireRole = (role: Role, min: Role): void => {
  if (!atLeast(role, min)) throw new ServiceError('forbidden', `This needs the role ${min}; yours is ${role}.`);
};

const authenticateUser = async (ctx: Context, { db }: Deps): Promise<SignInCall> => {
  const signedIn = await findSignedIn(db, tokenHash(ctx));
  if (signedIn === undefined) throw invalidToken();
  return signedIn;
};

/** @throws {ServiceError} `unauthenticated`, `not_found`, `forbidden` */
const requireMember = (found: SignedInAt | undefined, min: Role): ProjectCall => {
  if (found === undefined) throw invalidToken();
  const { user, signInId, membership } = found;
  if (membership === null) throw notFound('project');
  const { project, role } = membership;
  addLogContext({ projectId: project.id });
  requireRole(role, min);
  return { user, signInId, project, role };
};

/** A member of the project of the path, who is recalled where the access and the request allow it. */
const authenticateMember = async (
  ctx: Context,
  { db, members }: Deps,
  given: string,
  { role, checkedByInsert }: InProject,
): Promise<ProjectCall> => {
  const [hash, projectId] = [tokenHash(ctx), uuid.test(given) ? given : null];
  // With an Idempotency-Key the answer of an earlier request may be repeated, without an insert that checks the caller.
  const isRecalled = checkedByInsert === true && ctx.get('idempotency-key') === '';
  if (!isRecalled) return requireMember(await findSignedInAt(db, hash, projectId), role);
  const withMember = (call: ProjectCall): ProjectCall & { readonly member: RecalledMember } => ({
    ...call,
    member: { assumed: { tokenHash: hash, role: call.role, plan: call.project.plan }, renew },
  });
  const renew: RecalledMember['renew'] = async (queryable) =>
    withMember(requireMember(await members.read(queryable, hash, projectId), role));
  const known = members.recall(hash, projectId) ?? (await members.read(db, hash, projectId));
  return withMember(requireMember(known, role));
};

const authenticateInOrganization = async (ctx: Context, deps: Deps, min: Role): Promise<OrganizationCall> => {
  const signIn = await authenticateUser(ctx, deps);
  const wanted = ctx.get('x-org-id') || undefined;
  const found = await organizationFor(deps.db, signIn.user.id, wanted);
  if (found === undefined) throw notFound('organization');
  const { role, ...organization } = found;
  requireRole(role, min);
  return { ...signIn, organization, role };
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
      return authenticateUser(ctx, deps);
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
