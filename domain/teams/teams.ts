/*
 * Organizations and their members. This file has the rules of changes: invites, roles, transfer, deletion, and how many
 * organizations one user may own. store.ts has the rows, and which role is above which. Accepting an invite without
 * being signed in is domain/accounts/join.ts; the people themselves are in domain/users/users.ts.
 */
import { type PlatformMail, requireRoomForInvite } from '#domain/mail/mail.ts';
import { type User, findUser, lockUser } from '#domain/users/users.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import {
  type Invite,
  type Member,
  type Organization,
  type Role,
  activateMember,
  atLeast,
  countOwned,
  countOwners,
  deleteInvitesBy,
  deleteMember,
  deleteOrganizationInvites,
  disownOrganization,
  findInvite,
  findMember,
  insertInvite,
  insertOrganization,
  insertOwnOrganization,
  lockMembers,
  markOrganizationDeleted,
  markProjectsDeleted,
  renewInvite,
  roles,
  setMemberRole,
} from './store.ts';
import { hashToken, newToken } from '#lib/ids.ts';
import { nameAction } from '#domain/audit/actor.ts';

/**
 * Before a user becomes the owner of one more organization: by creating it, by an invite, or by a change of role.
 * Requests at the same moment wait for each other until the caller's transaction ends, so that the limit is exact.
 * @param max `PLINTH_ORGS_PER_USER`
 * @throws {ServiceError} `plan_limit_exceeded`
 */
const requireRoomToOwn = async (db: Queryable, userId: string, max: number): Promise<void> => {
  await lockUser(db, userId);
  const owned = await countOwned(db, userId);
  if (owned < max) return;
  throw new ServiceError('plan_limit_exceeded', `This user owns ${owned} organizations, and ${max} is the limit.`, {
    hint: 'Delete an organization, or transfer one to somebody else.',
  });
};

const inviteDays = 7;

/** The acting member, the organization and the role. All changes are made in the caller's transaction. */
interface Acting {
  readonly organization: Organization;
  readonly role: Role;
  readonly user: User;
}

/**
 * Blocks other changes to the members, then checks again: the role that admitted the caller may be gone by now, as when
 * two owners demote each other at once.
 * @throws {ServiceError} `not_found` for who was removed, `forbidden` for who was demoted
 */
const lockAllMembers = async (db: Queryable, { organization, user, role }: Acting): Promise<void> => {
  const present = await lockMembers(db, organization.id, user.id);
  if (present === undefined) throw notFound('organization');
  if (!atLeast(present, role)) throw new ServiceError('forbidden', `Your role is ${present} by now.`);
};

/** @throws {ServiceError} `forbidden` for a role above the caller's */
export const requireMayGrant = (acting: Acting, ...wanted: Role[]): void => {
  if (wanted.every((role) => atLeast(acting.role, role))) return;
  throw new ServiceError('forbidden', `Your role (${acting.role}) cannot grant, change or remove a role above it.`);
};

/** The same, and the member that the caller names. @throws {ServiceError} `not_found`, `forbidden` */
const lockMember = async (db: Queryable, acting: Acting, id: string): Promise<Member> => {
  await lockAllMembers(db, acting);
  const member = await findMember(db, acting.organization.id, { id });
  if (member === undefined) throw notFound('member');
  return member;
};

const keepAnOwner = async (db: Queryable, member: Member): Promise<void> => {
  if (member.role !== 'owner' || member.status !== 'active') return;
  if ((await countOwners(db, member.org_id)) > 1) return;
  throw new ServiceError('last_owner', 'An organization keeps at least one owner.', {
    hint: 'Make somebody else an owner first.',
  });
};

/** The roles that a member with that role may grant. */
const grantableBy = (role: Role | null): readonly Role[] =>
  role !== null && atLeast(role, 'admin') ? roles.filter((granted) => atLeast(role, granted)) : [];

/**
 * Invites die with the right that they rest on: a member who is about to be removed could otherwise invite another
 * address of theirs, and come back.
 * @param role the member's from now on; null: none
 */
const withdrawInvites = async (db: Queryable, member: Member, role: Role | null): Promise<void> => {
  if (member.user_id !== null) await deleteInvitesBy(db, member.org_id, member.user_id, grantableBy(role));
};

/** A user who leaves the organization of their first sign-in gets a new one: calls without `X-Org-Id` act on it. */
const replaceOwn = async (
  db: Queryable,
  { org_id: orgId, user_id: userId }: Pick<Member, 'org_id' | 'user_id'>,
): Promise<void> => {
  if (userId === null || !(await disownOrganization(db, orgId, userId))) return;
  const user = await findUser(db, userId);
  if (user !== undefined) await insertOwnOrganization(db, user);
};

const sendInvite = async (
  db: Queryable,
  mail: PlatformMail,
  to: string,
  { token, organization }: { readonly token: string; readonly organization: Acting['organization'] },
): Promise<string> => {
  const { id: orgId, name: orgName } = organization;
  await requireRoomForInvite(db, { orgId, to });
  const url = mail.link(`/invite/${token}`);
  await mail.send(db, { kind: 'invite', to, url, orgId, orgName, days: inviteDays });
  return url;
};

interface Invited {
  readonly id: string;
  readonly email: string;
  readonly role: Role;
  readonly status: 'pending';
  readonly invite_link: string;
}

/** @throws {ServiceError} `forbidden` for a role above the caller's, `already_member`, `rate_limited` */
export const invite = async (
  db: Queryable,
  mail: PlatformMail,
  acting: Acting,
  { email, role }: { readonly email: string; readonly role: Role },
): Promise<Invited> => {
  await lockAllMembers(db, acting);
  requireMayGrant(acting, role);
  const token = newToken('plinth_invite');
  const orgId = acting.organization.id;
  const invitedBy = acting.user.id;
  const id = await insertInvite(db, { orgId, email, role, hash: hashToken(token), days: inviteDays, invitedBy });
  const link = await sendInvite(db, mail, email, { token, organization: acting.organization });
  return { id, email, role, status: 'pending', invite_link: link };
};

/**
 * A new link; the old one dies. @throws {ServiceError} `already_member` when the invite was accepted, `rate_limited`
 */
export const resendInvite = async (
  db: Queryable,
  mail: PlatformMail,
  acting: Acting,
  memberId: string,
): Promise<Invited> => {
  const member = await lockMember(db, acting, memberId);
  if (member.status !== 'pending') throw new ServiceError('already_member', 'This member has accepted already.');
  requireMayGrant(acting, member.role);
  const token = newToken('plinth_invite');
  await renewInvite(db, member.id, { hash: hashToken(token), days: inviteDays, invitedBy: acting.user.id });
  const link = await sendInvite(db, mail, member.email, { token, organization: acting.organization });
  return { id: member.id, email: member.email, role: member.role, status: 'pending', invite_link: link };
};

/**
 * An organization that the user owns.
 * @param maxOwned organizations that one user may own
 * @throws {ServiceError} `plan_limit_exceeded`
 */
export const createOrganization = async (
  db: Queryable,
  owner: User,
  { name, maxOwned }: { readonly name: string; readonly maxOwned: number },
): Promise<string> => {
  await requireRoomToOwn(db, owner.id, maxOwned);
  return insertOrganization(db, name, owner);
};

/**
 * @param maxOwned organizations that one user may own
 * @throws {ServiceError} `not_found`, `forbidden` for another e-mail address, `already_member`, `expired`,
 * `plan_limit_exceeded`
 */
export const acceptInvite = async (
  db: Queryable,
  user: User,
  { token, maxOwned }: { readonly token: string; readonly maxOwned: number },
): Promise<Invite> => {
  const found = await findInvite(db, hashToken(token));
  if (found === undefined) throw notFound('invite');
  if (found.email.toLowerCase() !== user.email.toLowerCase()) {
    throw new ServiceError('forbidden', 'This invite is for another e-mail address.');
  }
  if (found.status === 'active') {
    throw new ServiceError('already_member', 'You are a member of this organization already.');
  }
  if (found.expired) {
    throw new ServiceError('expired', 'This invite is too old.', { hint: 'Ask for it to be sent again.' });
  }
  if (found.role === 'owner') await requireRoomToOwn(db, user.id, maxOwned);
  await activateMember(db, found.id, user);
  return found;
};

interface RoleChange {
  readonly memberId: string;
  readonly role: Role;
  /** Organizations that one user may own. */
  readonly maxOwned: number;
}

/** @throws {ServiceError} `not_found`, `forbidden`, `last_owner`, `plan_limit_exceeded` */
export const changeRole = async (
  db: Queryable,
  acting: Acting,
  { memberId, role, maxOwned }: RoleChange,
): Promise<Member> => {
  const member = await lockMember(db, acting, memberId);
  requireMayGrant(acting, role, member.role);
  if (role !== 'owner') await keepAnOwner(db, member);
  else if (member.role !== 'owner' && member.user_id !== null) await requireRoomToOwn(db, member.user_id, maxOwned);
  await setMemberRole(db, member.id, { role, by: acting.user.id });
  await withdrawInvites(db, member, role);
  return { ...member, role };
};

/**
 * Removes a member or takes back an invite; anyone may remove themselves.
 * @throws {ServiceError} `not_found`, `forbidden`, `last_owner`
 */
export const removeMember = async (db: Queryable, acting: Acting, memberId: string): Promise<void> => {
  const member = await lockMember(db, acting, memberId);
  if (member.user_id !== acting.user.id) {
    if (!atLeast(acting.role, 'admin')) throw new ServiceError('forbidden', 'Removing others needs the role admin.');
    requireMayGrant(acting, member.role);
  }
  await keepAnOwner(db, member);
  await deleteMember(db, member.id);
  await withdrawInvites(db, member, null);
  await replaceOwn(db, member);
};

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
  if (row === undefined) throw new Error('the members are locked, and the caller is none of them');
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
 * Deletes an organization that the caller has locked: its projects go as deleted ones do, its invites die, and whose
 * own one it was gets a new one.
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
