import type { Context } from 'koa';
import type { User } from '#domain/users/users.ts';
import { type Project, projectColumns } from '#domain/projects/store.ts';
import { type Role, atLeast, organizationFor } from '#domain/teams/store.ts';
import { maybeOne } from '#lib/control-db.ts';
import { addLogContext } from '#lib/context.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken } from '#lib/ids.ts';
import type { Access } from '../access.ts';
import type { AnyCaller, OrganizationCall, ProjectCall, SignInCall } from '../call.ts';
import type { Deps } from '../deps.ts';
import { authenticateByKey } from './by-key.ts';
import { bearerOf, unauthenticated } from './credentials.ts';
import { requireOperator } from './operator.ts';

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

const userColumns = `s.id as sign_in_id, u.id as user_id, u.email, u.full_name, u.avatar_url, u.created_at as user_created_at`;
const validToken = `sign_in_tokens t join sign_ins s on s.id = t.sign_in_id join users u on u.id = s.user_id`;
const isValid = `t.hash = $1 and t.kind = 'access' and t.expires_at > now() and s.ended_at is null`;

interface UserRow {
  readonly sign_in_id: string;
  readonly user_id: string;
  readonly email: string;
  readonly full_name: string | null;
  readonly avatar_url: string | null;
  readonly user_created_at: Date;
}

const signInOf = (row: UserRow): SignInCall => {
  const user: User = {
    id: row.user_id,
    email: row.email,
    full_name: row.full_name,
    avatar_url: row.avatar_url,
    created_at: row.user_created_at,
  };
  return { user, signInId: row.sign_in_id };
};

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
  const row = await maybeOne(
    db.query<UserRow>(`select ${userColumns} from ${validToken} where ${isValid}`, [tokenHash(ctx)], 'sign-in'),
  );
  if (row === undefined) throw invalidToken();
  return signInOf(row);
};

/** The caller, the project and the caller's role in it: one round trip. */
const authenticateMember = async (ctx: Context, { db }: Deps, projectId: string, min: Role): Promise<ProjectCall> => {
  const row = await maybeOne(
    db.query<UserRow & Project & { role: Role | null }>(
      `select ${userColumns}, m.role, ${projectColumns} from ${validToken}
       left join projects p on p.id = $2 and p.deleted_at is null
       left join members m on m.org_id = p.org_id and m.user_id = u.id
       where ${isValid}`,
      [tokenHash(ctx), uuid.test(projectId) ? projectId : null],
      'project-member',
    ),
  );
  if (row === undefined) throw invalidToken();
  const {
    role,
    sign_in_id: _s,
    user_id: _u,
    email: _e,
    full_name: _f,
    avatar_url: _a,
    user_created_at: _c,
    ...project
  } = row;
  if (role === null) throw notFound('project');
  addLogContext({ projectId: project.id });
  requireRole(role, min);
  return { ...signInOf(row), project, role };
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
 * @throws {ServiceError} `unauthenticated`, `forbidden` (role, or a change asked by another page), `not_found` (not a member)
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
      return authenticateMember(ctx, deps, params['project_id'] ?? '', access.role);
    case 'organization':
      return authenticateInOrganization(ctx, deps, access.role);
    case 'key':
      return authenticateByKey(ctx, deps, access, params['ref']);
    case 'operator':
      requireOperator(ctx, deps);
      return {};
  }
};
