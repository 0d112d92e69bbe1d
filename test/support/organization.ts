import { signIn, tokenForm } from '#domain/accounts/sign-ins.ts';
import { systemActor } from '#domain/audit/actor.ts';
import { type Role, insertOwnOrganization } from '#domain/teams/store.ts';
import { newId } from '#lib/ids.ts';
import { type Answer, type CallOptions, type TestUser, uniqueName } from './client.ts';
import type { TestPlatform } from './platform.ts';

// Argon2 costs some 60 ms a user; who never logs in needs none.
const noPassword = 'none';

/** The last part of a link, as the interface has it. */
export const tokenOfLink = (link: string): string => link.split('/').at(-1) ?? '';

/** The organization that a user began with. */
export const ownOrgId = async ({ client }: TestPlatform, user: TestUser): Promise<string> => {
  const { body } = await client.call('GET', '/team/orgs', { token: user.token });
  return body[0].org_id;
};

export interface TestOrganization {
  readonly id: string;
  /** One signed-in member of each role. */
  readonly members: Readonly<Record<Role, TestUser>>;
  /** A call of that member in this organization. */
  readonly as: (role: Role, method: string, path: string, options?: CallOptions) => Promise<Answer>;
}

export interface InsertedMember {
  readonly id: string;
  readonly email: string;
  /** Null: invited, not yet a member. */
  readonly userId: string | null;
}

/** A user with whatever role, put there without requests and without a password: for tests that need many. */
export const insertMember = (
  { db }: TestPlatform,
  orgId: string,
  role: Role,
  status: 'active' | 'pending' = 'active',
): Promise<InsertedMember> =>
  db.transaction(async (tx) => {
    const [id, userId, email] = [newId(), newId(), `${uniqueName(role)}@example.com`];
    await tx.query('insert into users (id, email, password_hash) values ($1, $2, $3)', [userId, email, noPassword]);
    const of = status === 'active' ? userId : null;
    await tx.query('insert into members (id, org_id, user_id, email, role, status) values ($1, $2, $3, $4, $5, $6)', [
      id,
      orgId,
      of,
      email,
      role,
      status,
    ]);
    return { id, email, userId: of };
  }, systemActor);

const join = async (platform: TestPlatform, orgId: string, role: Role): Promise<TestUser> => {
  const { email, userId } = await insertMember(platform, orgId, role);
  const id = userId ?? '';
  const origin = { ip: '127.0.0.1', userAgent: undefined };
  const started = await platform.db.transaction((tx) =>
    signIn(tx, { id, password_hash: noPassword }, origin, tokenForm),
  );
  if (started === undefined) throw new Error('the member could not sign in');
  await platform.db.transaction(async (tx) => {
    await insertOwnOrganization(tx, { id, email, full_name: null, avatar_url: null, created_at: new Date() });
  }, systemActor);
  return {
    id,
    email,
    password: noPassword,
    token: started.tokens.access_token,
    refreshToken: started.tokens.refresh_token,
  };
};

/** The own organization of a new user, with a member of each role; only the owner has a password. */
export const createOrganization = async (platform: TestPlatform): Promise<TestOrganization> => {
  const owner = await platform.client.signUp();
  const id = await ownOrgId(platform, owner);
  const [viewer, developer, admin] = await Promise.all([
    join(platform, id, 'viewer'),
    join(platform, id, 'developer'),
    join(platform, id, 'admin'),
  ]);
  const members = { viewer, developer, admin, owner };
  return {
    id,
    members,
    as: (role, method, path, options = {}) =>
      platform.client.call(method, path, {
        ...options,
        token: members[role].token,
        headers: { 'x-org-id': id, ...options.headers },
      }),
  };
};

/** The role that a member has now; undefined for who is none. */
export const roleOf = async ({ db }: TestPlatform, memberId: string): Promise<Role | undefined> => {
  const [row] = await db.query<{ role: Role }>('select role from members where id = $1', [memberId]);
  return row?.role;
};

/** The member row of a user in an organization. */
export const memberIdOf = async ({ db }: TestPlatform, orgId: string, userId: string): Promise<string> => {
  const [row] = await db.query<{ id: string }>('select id from members where org_id = $1 and user_id = $2', [
    orgId,
    userId,
  ]);
  if (row === undefined) throw new Error('not a member');
  return row.id;
};
