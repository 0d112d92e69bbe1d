import type { Queryable } from '#lib/control-db.ts';

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
