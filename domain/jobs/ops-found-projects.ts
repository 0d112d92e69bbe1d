import type { ControlDb } from '#lib/control-db.ts';
import { idsOfNamed } from './ops-filter.ts';
import { bounded } from './ops-search.ts';

/** A project, and how many of its jobs a pause would concern. */
export interface FoundProject {
  readonly project_id: string;
  readonly ref: string;
  readonly name: string;
  readonly plan: string;
  /** Counted up to 100,000. */
  readonly waiting: number;
  readonly running: number;
}

const maxCounted = 100_000;

/**
 * Projects by id, ref, slug or name, the newest 50, with their jobs of one type or of all.
 * @throws {ServiceError} `validation_failed` when counting takes longer than three seconds
 */
export const findProjects = (
  db: ControlDb,
  { project, type }: { readonly project: string; readonly type: string | undefined },
): Promise<FoundProject[]> =>
  bounded(db, async (tx) => {
    const { projectIds } = await idsOfNamed(tx, { project });
    return tx.query<FoundProject>(
      `select p.id as project_id, p.ref, p.name, p.plan,
         (select count(*)::int from (select from jobs j where j.project_id = p.id and j.status = 'queued'
           and ($2::text is null or j.type = $2) limit ${maxCounted}) queued) as waiting,
         (select count(*)::int from jobs j where j.project_id = p.id and j.status = 'running'
           and ($2::text is null or j.type = $2)) as running
       from projects p where p.id = any ($1) and p.deleted_at is null order by p.created_at desc`,
      [projectIds, type ?? null],
    );
  });
