import { nameAction } from '#domain/audit/actor.ts';
import { markProjectsDeleted } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { requireRoomToOwn } from './limits.ts';
import { deleteOrganizationInvites, findMember, markOrganizationDeleted, setMemberRole } from './store.ts';
import { type Acting, lockAllMembers, lockMember, replaceOwn, withdrawInvites } from './teams.ts';
import type { Member } from './store.ts';

const requireTarget = (acting: Acting, member: Member): string => {
  if (member.user_id === null) {
    throw new ServiceError('conflict', 'This member has not accepted the invite yet.', {
      hint: 'Transfer the organization to a member who has.',
    });
  }
  if (member.user_id === acting.user.id) {
    throw new ServiceError('conflict', 'The organization is yours already.', {
      hint: 'Name another member as the new owner.',
    });
  }
  return member.user_id;
};

/** The caller's own row among the members. */
const ownRow = async (db: Queryable, { organization, user }: Acting): Promise<Member> => {
  const row = await findMember(db, organization.id, { userId: user.id });
  if (row === undefined) throw new Error('the members were held, and the caller is none of them');
  return row;
};

/**
 * Makes another member the owner in the caller's place, who stays as an admin. Other owners stay owners. Needs a
 * transaction.
 * @param maxOwned organizations that one user may own
 * @returns the new owner
 * @throws {ServiceError} `not_found`, `forbidden`, `conflict`, `plan_limit_exceeded`
 */
export const transferOrganization = async (
  db: Queryable,
  acting: Acting,
  { memberId, maxOwned }: { readonly memberId: string; readonly maxOwned: number },
): Promise<Member> => {
  const member = await lockMember(db, acting, memberId);
  const userId = requireTarget(acting, member);
  if (member.role !== 'owner') await requireRoomToOwn(db, userId, maxOwned);
  const former = await ownRow(db, acting);
  await setMemberRole(db, member.id, { role: 'owner', by: acting.user.id });
  await setMemberRole(db, former.id, { role: 'admin', by: acting.user.id });
  await withdrawInvites(db, former, 'admin');
  await replaceOwn(db, former);
  return { ...member, role: 'owner' };
};

/**
 * Deletes an organization that the caller has locked: its projects go as deleted ones do, its invites die, and whose own
 * one it was gets a new one.
 * @param leaver the user who is about to be deleted, and gets none
 * @returns the projects, whose deletion is to be finished after the commit
 */
export const dissolve = async (db: Queryable, orgId: string, leaver?: string): Promise<readonly string[]> => {
  await nameAction(db, 'project.delete');
  const projects = await markProjectsDeleted(db, orgId);
  await nameAction(db, 'organization.delete');
  await deleteOrganizationInvites(db, orgId);
  const ownOf = await markOrganizationDeleted(db, orgId);
  if (ownOf !== null && ownOf !== leaver) await replaceOwn(db, { org_id: orgId, user_id: ownOf });
  return projects;
};

/** @throws {ServiceError} `not_found`, `forbidden` */
export const deleteOrganization = async (db: Queryable, acting: Acting): Promise<readonly string[]> => {
  await lockAllMembers(db, acting);
  return dissolve(db, acting.organization.id);
};
