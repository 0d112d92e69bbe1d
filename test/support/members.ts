import { systemActor } from '#domain/audit/actor.ts';
import type { Role } from '#domain/teams/store.ts';
import { newId } from '#lib/ids.ts';
import type { TestUser } from './client.ts';
import type { TestPlatform } from './platform.ts';

/** A new user who is a member of that organization, without the detour of an invite. */
export const addMember = async ({ client, db }: TestPlatform, orgId: string, role: Role): Promise<TestUser> => {
  const user = await client.signUp();
  await db.transaction(async (tx) => {
    await tx.query(
      `insert into members (id, org_id, user_id, email, role, status) values ($1, $2, $3, $4, $5, 'active')`,
      [newId(), orgId, user.id, user.email, role],
    );
  }, systemActor);
  return user;
};

/** The id of the organization that the user began with. */
export const ownOrganization = async ({ db }: TestPlatform, user: TestUser): Promise<string> => {
  const [row] = await db.query<{ id: string }>('select id from organizations where own_of = $1', [user.id]);
  if (row === undefined) throw new Error('the user has no organization');
  return row.id;
};
