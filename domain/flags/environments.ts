import type { Queryable } from '#lib/control-db.ts';
import { maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { type Author, takeRoom } from './author.ts';
import { defaultEnvironment, environmentForm } from './definition.ts';
import { type EnvironmentRow, findEnvironment, insertEnvironment, nextVersion } from './store.ts';

/** Each is a set of flags of its own: the same key may have another value there. */
const maxEnvironments = 50;

const requireName = (name: string): void => {
  if (environmentForm.test(name) && name !== 'compare') return;
  throw new ServiceError('validation_failed', 'The environment is not valid.', {
    details: [{ path: 'name', message: 'has 1 to 63 of a-z, 0-9, _ and -, a letter first, and is not compare' }],
  });
};

/** @throws {ServiceError} `not_found` */
export const requireEnvironment = async (db: Queryable, projectId: string, name: string): Promise<EnvironmentRow> => {
  const found = await findEnvironment(db, projectId, name);
  if (found === undefined) throw notFound('environment');
  return found;
};

/**
 * The environment of that name, which is made where there is none.
 * @param of.version as `nextVersion` answered it
 * @throws {ServiceError} `validation_failed`, `plan_limit_exceeded`
 */
export const usableEnvironment = async (
  db: Queryable,
  projectId: string,
  of: { readonly name: string; readonly version: number },
): Promise<EnvironmentRow> => {
  const found = await findEnvironment(db, projectId, of.name);
  if (found !== undefined) return found;
  requireName(of.name);
  const { total } = await one(
    db.query<{ total: number }>('select count(*) as total from flag_environments where project_id = $1', [projectId]),
  );
  if (total >= maxEnvironments)
    throw new ServiceError('plan_limit_exceeded', `A project has at most ${maxEnvironments} environments.`);
  return insertEnvironment(db, projectId, of);
};

export interface ListedEnvironment {
  readonly name: string;
  /** How many there are. */
  readonly flags: number;
}

/** Before its first flag a project has the one environment that there always is. */
export const listEnvironments = async (db: Queryable, projectId: string): Promise<ListedEnvironment[]> => {
  const rows = await db.query<ListedEnvironment>(
    `select e.name, (select count(*) from flags f where f.environment_id = e.id) as flags
     from flag_environments e where e.project_id = $1 order by e.created_at, e.id`,
    [projectId],
  );
  return rows.length > 0 ? rows : [{ name: defaultEnvironment, flags: 0 }];
};

/** @throws {ServiceError} `conflict` when there is one of that name */
export const createEnvironment = async (db: Queryable, projectId: string, name: string): Promise<ListedEnvironment> => {
  requireName(name);
  const version = await nextVersion(db, projectId);
  if ((await findEnvironment(db, projectId, name)) !== undefined)
    throw new ServiceError('conflict', `There is an environment ${name} already.`);
  await usableEnvironment(db, projectId, { name, version });
  return { name, flags: 0 };
};

const requireOther = (name: string): void => {
  if (name !== defaultEnvironment) return;
  throw new ServiceError('conflict', `The environment ${defaultEnvironment} stays: calls without one mean it.`);
};

/** @throws {ServiceError} `not_found`, `conflict` */
export const renameEnvironment = async (
  db: Queryable,
  projectId: string,
  { name, to }: { readonly name: string; readonly to: string },
): Promise<ListedEnvironment> => {
  requireOther(name);
  requireName(to);
  const version = await nextVersion(db, projectId);
  const { id } = await requireEnvironment(db, projectId, name);
  if (to !== name && (await findEnvironment(db, projectId, to)) !== undefined)
    throw new ServiceError('conflict', `There is an environment ${to} already.`);
  await db.query('update flag_environments set name = $2, version = $3 where id = $1', [id, to, version]);
  const { flags } = await one(
    db.query<{ flags: number }>('select count(*) as flags from flags where environment_id = $1', [id]),
  );
  return { name: to, flags };
};

/** Deletes an environment with its flags. @throws {ServiceError} `not_found`, `conflict` */
export const deleteEnvironment = async (
  db: Queryable,
  author: Pick<Author, 'projectId' | 'quota'>,
  name: string,
): Promise<void> => {
  requireOther(name);
  await nextVersion(db, author.projectId);
  const { id } = await requireEnvironment(db, author.projectId, name);
  const held = await maybeOne(
    db.query<{ flags: number; bytes: number }>(
      'select count(*) as flags, coalesce(sum(bytes), 0)::float8 as bytes from flags where environment_id = $1',
      [id],
    ),
  );
  // Its flags go with it, under the one entry for the environment.
  await db.query(`select set_config('plinth.flags_at_once', 'on', true)`);
  await db.query('delete from flag_environments where id = $1', [id]);
  await takeRoom(db, author, { flags: -(held?.flags ?? 0), bytes: -(held?.bytes ?? 0) });
};
