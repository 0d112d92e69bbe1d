/* Variables that all functions of a project share. A function's own variable of the same name overrides one of these. */
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type EnvVars, mergeVars } from './env-vars.ts';

const about = (projectId: string): string => `project:${projectId}:env`;

export const openProjectEnv = (sealer: Sealer, projectId: string, sealed: Buffer | null): EnvVars =>
  sealed === null ? {} : (JSON.parse(sealer.open(about(projectId), sealed)) as EnvVars);

const sealProjectEnv = (sealer: Sealer, projectId: string, vars: EnvVars): Buffer | null =>
  Object.keys(vars).length === 0 ? null : sealer.seal(about(projectId), JSON.stringify(vars));

/** The names of the variables, in order. */
export const projectEnvNames = async (db: Queryable, projectId: string): Promise<readonly string[]> => {
  const row = await maybeOne(
    db.query<{ names: string[] }>('select names from project_env where project_id = $1', [projectId]),
  );
  return row?.names ?? [];
};

/**
 * Sets variables, and unsets those whose value is null; all of them, or none. Runs that start after the transaction see
 * the change.
 * @returns the names that there are then
 * @throws {ServiceError} `validation_failed` beyond 200 variables or 128 KB, or for a masked value of a new name
 */
export const changeProjectEnv = async (
  db: Queryable,
  projectId: string,
  changes: Readonly<Record<string, string | null>>,
  sealer: Sealer,
): Promise<readonly string[]> => {
  await db.query(`select pg_advisory_xact_lock(hashtextextended('project_env ' || $1, 0))`, [projectId]);
  const row = await maybeOne(
    db.query<{ vars_sealed: Buffer | null }>('select vars_sealed from project_env where project_id = $1', [projectId]),
  );
  const present = openProjectEnv(sealer, projectId, row?.vars_sealed ?? null);
  const vars = mergeVars(present, changes);
  const names = Object.keys(vars).toSorted();
  if (JSON.stringify(vars) === JSON.stringify(present)) return names;
  await db.query(
    `insert into project_env (project_id, vars_sealed, names) values ($1, $2, $3)
     on conflict (project_id) do update set vars_sealed = excluded.vars_sealed, names = excluded.names,
       version = project_env.version + 1, updated_at = now()`,
    [projectId, sealProjectEnv(sealer, projectId, vars), names],
  );
  return names;
};
