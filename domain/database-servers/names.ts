import type { TenantRole } from '#lib/tenant-db.ts';
import type { ClientBase, Pool, PoolClient } from 'pg';

/** The interface's pattern `<prefix>_<org_id>_<slug>`; at most 55 of PostgreSQL's 63 bytes. */
export const databaseName = (orgId: string, slug: string): string => `plinth_${orgId}_${slug}`;

/** The name of a project's database until it is closed to everybody else and marked as the project's. */
export const unfinishedDatabaseName = (ref: string): string => `plinth_unfinished_${ref}`;

/** The name of a deleted project's database until it is dropped: its old name is free at once. */
export const deletedDatabaseName = (ref: string): string => `plinth_deleted_${ref}`;

/** The throw-away database of a project in which its migrations are tried. */
export const shadowDatabaseName = (ref: string): string => `plinth_shadow_${ref}`;

export const roleName = (ref: string, kind: TenantRole): string => `${ref}_${kind}`;

// The longest result of `databaseName`, with the quotes and the word that the server puts around it.
const physicalName = /(?:\bdatabase )?"?\bplinth_[a-z][a-z0-9]{15}_[a-z][a-z0-9_]{0,30}\b"?/g;

/** A message of the server without the name that a project's database has on it: it holds the organization's id. */
export const withoutDatabaseName = (message: string): string =>
  message.includes('plinth_') ? message.replaceAll(physicalName, "the project's database") : message;

/**
 * A slug is free as soon as its project is deleted, so several projects may have had the same database name, and their
 * deletions and creations may meet. The database's comment names its owner; a process that reads it and then acts holds
 * the name's lock meanwhile.
 */

const prefix = 'plinth project ';

/** The comment of a project's database. */
export const markerOf = (projectId: string): string => prefix + projectId;

/**
 * The project that the database of that name belongs to; null when there is no such database.
 * @throws {Error} when there is one that is no project's
 */
export const projectOfDatabase = async (admin: ClientBase, name: string): Promise<string | null> => {
  const { rows } = await admin.query<{ marker: string | null }>(
    `select shobj_description(oid, 'pg_database') as marker from pg_database where datname = $1`,
    [name],
  );
  const [found] = rows;
  if (found === undefined) return null;
  if (found.marker?.startsWith(prefix)) return found.marker.slice(prefix.length);
  throw new Error(`the database ${name} belongs to no project`);
};

/** Runs `work` on one connection while no other process creates or renames a database of that name. */
export const withDatabaseName = async <T>(
  admin: Pool,
  name: string,
  work: (client: PoolClient) => Promise<T>,
): Promise<T> => {
  const client = await admin.connect();
  let done = false;
  try {
    await client.query('select pg_advisory_lock(hashtextextended($1, 0))', [name]);
    const result = await work(client);
    await client.query('select pg_advisory_unlock(hashtextextended($1, 0))', [name]);
    done = true;
    return result;
  } finally {
    // The lock dies with its connection.
    client.release(!done);
  }
};
