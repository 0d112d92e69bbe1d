import { type Queryable, one } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Reader } from './snippets.ts';

/** A statement that somebody ran by hand, as only that person sees it. */
export interface PastRun {
  readonly id: string;
  /** Its first 16,000 characters. */
  readonly sql: string;
  readonly duration_ms: number;
  readonly row_count: number | null;
  /** The code of the failure; null: it succeeded. */
  readonly error: string | null;
  readonly ran_at: Date;
}

const maxLength = 16_000;
/** The runs of one person in one project; older ones are deleted. */
const maxKept = 200;

/** Adds a run, and forgets the oldest beyond the last 200. */
export const noteRun = async (
  db: Queryable,
  { projectId, userId }: Reader,
  run: Pick<PastRun, 'sql' | 'duration_ms' | 'row_count' | 'error'>,
): Promise<void> => {
  const sql = Array.from(run.sql.slice(0, 2 * maxLength))
    .slice(0, maxLength)
    .join('');
  await db.query(
    `insert into sql_history (id, project_id, user_id, sql, duration_ms, row_count, error)
     values ($3, $1, $2, $4, $5, $6, $7)`,
    [projectId, userId, newId(), sql.toWellFormed(), Math.round(run.duration_ms), run.row_count, run.error],
  );
  await db.query(
    `delete from sql_history where id in (
       select id from sql_history where project_id = $1 and user_id = $2 order by id desc offset $3)`,
    [projectId, userId, maxKept],
  );
};

/** The newest first. */
export const listRuns = async (
  db: Queryable,
  { projectId, userId }: Reader,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ runs: PastRun[]; total: number }> => {
  const runs = await db.query<PastRun>(
    `select id, sql, duration_ms, row_count, error, ran_at from sql_history
     where project_id = $1 and user_id = $2 order by id desc limit $3 offset $4`,
    [projectId, userId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>('select count(*) as total from sql_history where project_id = $1 and user_id = $2', [
      projectId,
      userId,
    ]),
  );
  return { runs, total };
};

/** Deletes a person's history in a project. */
export const forgetRuns = async (db: Queryable, { projectId, userId }: Reader): Promise<void> => {
  await db.query('delete from sql_history where project_id = $1 and user_id = $2', [projectId, userId]);
};
