import type { User } from '#domain/users/users.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { newId, newOrgId } from '#lib/ids.ts';

/** The roles of an organization's members, from least to most. */
export const roles = ['viewer', 'developer', 'admin', 'owner'] as const;
export type Role = (typeof roles)[number];

export const atLeast = (role: Role, min: Role): boolean => roles.indexOf(role) >= roles.indexOf(min);

export interface Organization {
  readonly id: string;
  readonly name: string;
  readonly own_of: string | null;
}

export interface Member {
  readonly id: string;
  readonly org_id: string;
  readonly user_id: string | null;
  readonly email: string;
  readonly role: Role;
  readonly status: 'pending' | 'active';
  readonly full_name: string | null;
  readonly avatar_url: string | null;
}

const insertOrganizationRow = async (db: Queryable, name: string, ownOf: string | null): Promise<string> => {
  const id = newOrgId();
  await db.query('insert into organizations (id, name, own_of) values ($1, $2, $3)', [id, name, ownOf]);
  return id;
};

const insertOwner = (db: Queryable, orgId: string, user: User): Promise<unknown> =>
  db.query(
    `insert into members (id, org_id, user_id, email, role, status) values ($1, $2, $3, $4, 'owner', 'active')`,
    [newId(), orgId, user.id, user.email],
  );

/** The organization that each user begins with. */
export const insertOwnOrganization = async (db: Queryable, user: User): Promise<void> => {
  const name = `${user.full_name ?? user.email.split('@', 1)[0]}'s organization`;
  await insertOwner(db, await insertOrganizationRow(db, name, user.id), user);
};

export const insertOrganization = async (db: Queryable, name: string, owner: User): Promise<string> => {
  const id = await insertOrganizationRow(db, name, null);
  await insertOwner(db, id, owner);
  return id;
};

interface OrganizationOfUser {
  readonly org_id: string;
  readonly org_name: string;
  readonly role: Role;
  readonly is_own: boolean;
}

/** The user's own organization first. */
export const organizationsOf = (db: Queryable, userId: string): Promise<OrganizationOfUser[]> =>
  db.query(
    `select o.id as org_id, o.name as org_name, m.role, o.own_of is not distinct from m.user_id as is_own
     from members m join organizations o on o.id = m.org_id
     where m.user_id = $1 and o.deleted_at is null order by is_own desc, o.created_at, o.id`,
    [userId],
  );

/** The organization as that user sees it; undefined for who is not an active member. */
export const organizationFor = (
  db: Queryable,
  userId: string,
  orgId: string | undefined,
): Promise<(Organization & { role: Role }) | undefined> =>
  maybeOne(
    db.query(
      `select o.id, o.name, o.own_of, m.role from members m join organizations o on o.id = m.org_id
       where m.user_id = $1 and o.deleted_at is null
          and case when $2::text is null then o.own_of = $1 else o.id = $2 end`,
      [userId, orgId ?? null],
    ),
  );

const memberColumns = `m.id, m.org_id, m.user_id, m.email, m.role, m.status, u.full_name, u.avatar_url`;

export const membersOf = (db: Queryable, orgId: string): Promise<Member[]> =>
  db.query(
    `select ${memberColumns} from members m left join users u on u.id = m.user_id where m.org_id = $1
     order by m.created_at, m.id`,
    [orgId],
  );

/** Locks the member against acceptance at the same moment. */
export const findMember = (
  db: Queryable,
  orgId: string,
  which: { readonly id: string } | { readonly userId: string },
): Promise<Member | undefined> =>
  maybeOne(
    db.query(
      `select ${memberColumns} from members m left join users u on u.id = m.user_id
       where m.org_id = $1 and (m.id = $2 or m.user_id = $3)
       for no key update of m`,
      [orgId, 'id' in which ? which.id : null, 'userId' in which ? which.userId : null],
    ),
  );

interface NewInvite {
  readonly orgId: string;
  readonly email: string;
  readonly role: Role;
  readonly hash: Buffer;
  readonly days: number;
  /** The user whose right the invite rests on. */
  readonly invitedBy: string;
}

/** Fails on `members_org_email_key` when the address is a member or invited. */
export const insertInvite = async (db: Queryable, invite: NewInvite): Promise<string> => {
  const id = newId();
  await db.query(
    `insert into members (id, org_id, email, role, status, invite_hash, invite_expires_at, invited_by)
     values ($1, $2, $3, $4, 'pending', $5, now() + make_interval(days => $6), $7)`,
    [id, invite.orgId, invite.email, invite.role, invite.hash, invite.days, invite.invitedBy],
  );
  return id;
};

export const renewInvite = async (
  db: Queryable,
  memberId: string,
  { hash, days, invitedBy }: Pick<NewInvite, 'hash' | 'days' | 'invitedBy'>,
): Promise<void> => {
  await db.query(
    `update members set invite_hash = $2, invite_expires_at = now() + make_interval(days => $3), invited_by = $4
     where id = $1`,
    [memberId, hash, days, invitedBy],
  );
};

/** Takes back the invites that rest on the right of that user, but for those to one of the roles in `still`. */
export const deleteInvitesBy = async (
  db: Queryable,
  orgId: string,
  userId: string,
  still: readonly Role[],
): Promise<void> => {
  await db.query(
    `delete from members where org_id = $1 and invited_by = $2 and status = 'pending' and role <> all ($3)`,
    [orgId, userId, still],
  );
};

/** The organization is not that user's own any more. @returns whether it was */
export const disownOrganization = async (db: Queryable, orgId: string, userId: string): Promise<boolean> => {
  const rows = await db.query(`update organizations set own_of = null where id = $1 and own_of = $2 returning id`, [
    orgId,
    userId,
  ]);
  return rows.length > 0;
};

export interface Invite {
  readonly id: string;
  readonly org_id: string;
  readonly org_name: string;
  readonly email: string;
  readonly role: Role;
  readonly status: 'pending' | 'active';
  readonly expired: boolean;
  /** The name or address of the member who invited; null: that account is gone. */
  readonly invited_by: string | null;
}

/** Locks the invite, so that one acceptance wins. An accepted one is found, too: its invitee gets that answer. */
export const findInvite = (db: Queryable, hash: Buffer): Promise<Invite | undefined> =>
  maybeOne(
    db.query(
      `select m.id, m.org_id, o.name as org_name, m.email, m.role, m.status, m.invite_expires_at <= now() as expired,
         case when u.full_name is null then u.email else u.full_name || ' (' || u.email || ')' end as invited_by
       from members m join organizations o on o.id = m.org_id left join users u on u.id = m.invited_by
       where m.invite_hash = $1 and o.deleted_at is null for no key update of m`,
      [hash],
    ),
  );

/** Fails on `members_org_user_key` when the user is a member already. */
export const activateMember = async (db: Queryable, memberId: string, user: User): Promise<void> => {
  await db.query(
    `update members set status = 'active', user_id = $2, email = $3, invite_expires_at = null where id = $1`,
    [memberId, user.id, user.email],
  );
};

/** @param by the user who changes it: an invite then rests on their right */
export const setMemberRole = async (
  db: Queryable,
  memberId: string,
  { role, by }: { readonly role: Role; readonly by: string },
): Promise<void> => {
  await db.query(
    `update members set role = $2, invited_by = case when status = 'pending' then $3 else invited_by end where id = $1`,
    [memberId, role, by],
  );
};

export const deleteMember = async (db: Queryable, memberId: string): Promise<void> => {
  await db.query('delete from members where id = $1', [memberId]);
};

/**
 * Holds back other changes to the organization's members until this transaction ends.
 * @returns the user's role once they are held back; undefined when the user is no member any more
 */
export const lockMembers = async (db: Queryable, orgId: string, userId: string): Promise<Role | undefined> => {
  await db.query('select from organizations where id = $1 for no key update', [orgId]);
  const row = await maybeOne(
    db.query<{ role: Role }>(
      `select m.role from members m join organizations o on o.id = m.org_id
       where m.org_id = $1 and m.user_id = $2 and o.deleted_at is null`,
      [orgId, userId],
    ),
  );
  return row?.role;
};

export const countOwners = async (db: Queryable, orgId: string): Promise<number> => {
  const row = await one(
    db.query<{ owners: number }>(
      `select count(*) as owners from members where org_id = $1 and role = 'owner' and status = 'active'`,
      [orgId],
    ),
  );
  return row.owners;
};

/** How many organizations the user owns. */
export const countOwned = async (db: Queryable, userId: string): Promise<number> => {
  const row = await one(
    db.query<{ owned: number }>(
      `select count(*) as owned from members m join organizations o on o.id = m.org_id
       where m.user_id = $1 and m.role = 'owner' and m.status = 'active' and o.deleted_at is null`,
      [userId],
    ),
  );
  return row.owned;
};

export const deleteOrganizationInvites = async (db: Queryable, orgId: string): Promise<void> => {
  await db.query(`delete from members where org_id = $1 and status = 'pending'`, [orgId]);
};

/** From here on the organization is gone for everybody. @returns the user whose own one it is, if any */
export const markOrganizationDeleted = async (db: Queryable, orgId: string): Promise<string | null> => {
  const row = await maybeOne(
    db.query<{ own_of: string | null }>(
      `update organizations set deleted_at = now() where id = $1 and deleted_at is null returning own_of`,
      [orgId],
    ),
  );
  return row?.own_of ?? null;
};

/**
 * Marks the projects of an organization as deleted: they are gone for everybody, and their slugs are free. @returns
 * which
 */
export const markProjectsDeleted = async (db: Queryable, orgId: string): Promise<readonly string[]> => {
  const rows = await db.query<{ id: string }>(
    `update projects set status = 'deleting', deleted_at = now(), updated_at = now()
     where org_id = $1 and deleted_at is null returning id`,
    [orgId],
  );
  return rows.map(({ id }) => id);
};

/** Removes deleted organizations of whose projects nothing is kept any more, a bounded number at a time. */
export const sweepOrganizations = async (db: Queryable): Promise<void> => {
  await db.query(
    `delete from organizations where id = any (array(
       select o.id from organizations o
       where o.deleted_at is not null and not exists (select from projects p where p.org_id = o.id)
       limit 500 for update skip locked))`,
  );
};

export const renameOrganization = async (db: Queryable, orgId: string, name: string): Promise<void> => {
  await db.query('update organizations set name = $2 where id = $1', [orgId, name]);
};

/** A user's membership with what its end would mean to others. */
export interface Membership {
  readonly id: string;
  readonly org_id: string;
  readonly org_name: string;
  readonly is_last_owner: boolean;
  /** How many other active members there are. */
  readonly others: number;
}

/** In the order of the organizations' ids. */
export const membershipsOf = (db: Queryable, userId: string): Promise<Membership[]> =>
  db.query(
    `select m.id, o.id as org_id, o.name as org_name,
       m.role = 'owner' and not exists (
         select from members w where w.org_id = o.id and w.role = 'owner' and w.status = 'active' and w.id <> m.id)
         as is_last_owner,
       (select count(*) from members w where w.org_id = o.id and w.status = 'active' and w.id <> m.id) as others
     from members m join organizations o on o.id = m.org_id
     where m.user_id = $1 and m.status = 'active' and o.deleted_at is null order by o.id`,
    [userId],
  );

/** Holds back other changes to the members of these organizations until this transaction ends. */
export const lockOrganizations = async (db: Queryable, orgIds: readonly string[]): Promise<void> => {
  await db.query('select from organizations where id = any ($1) order by id for no key update', [orgIds]);
};

/** A sign-in that reads from a project. */
export interface Reader {
  readonly signInId: string;
  readonly projectId: string;
}

/**
 * Returns those of the readers who still have access: neither the sign-in, nor the membership, nor the project has
 * ended.
 */
export const readersWithAccess = (db: Queryable, readers: readonly Reader[]): Promise<Reader[]> =>
  db.query(
    `select r.sign_in as "signInId", r.project as "projectId"
     from unnest($1::uuid[], $2::uuid[]) as r (sign_in, project)
       join sign_ins s on s.id = r.sign_in and s.ended_at is null
       join projects p on p.id = r.project and p.deleted_at is null
       join members m on m.org_id = p.org_id and m.user_id = s.user_id and m.status = 'active'`,
    [readers.map(({ signInId }) => signInId), readers.map(({ projectId }) => projectId)],
    'readers-with-access',
  );
