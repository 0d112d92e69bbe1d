import type { ClientBase, Pool, PoolClient } from 'pg';

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
