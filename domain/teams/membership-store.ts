import type { Queryable } from '#lib/control-db.ts';

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
