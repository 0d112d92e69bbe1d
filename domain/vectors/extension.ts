import { type ClientBase, DatabaseError } from 'pg';
import { sqlError } from '#domain/database/console/sql-error.ts';
import { type ChangeListeners, noteChange } from '#domain/database/database.ts';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import type { Project } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';

/** pgvector is not on the server, or not the platform's to install: 501, on vector calls alone. */
export const extensionUnavailable = (cause?: unknown): ServiceError =>
  new ServiceError('vector_extension_unavailable', 'This installation has no vector extension.', {
    hint: 'Its operator can install pgvector on the database server; everything else works without it.',
    cause,
  });

const stateSql = `select (select extversion from pg_catalog.pg_extension where extname = 'vector') as installed,
  exists (select from pg_catalog.pg_available_extensions where name = 'vector') as is_available`;

interface State {
  readonly installed: string | null;
  readonly is_available: boolean;
}

const stateOf = async (client: ClientBase): Promise<State> => {
  const { rows } = await client.query<State>(stateSql);
  return rows[0] ?? { installed: null, is_available: false };
};

/**
 * For when nothing was found, which may have that reason.
 * @throws {ServiceError} `vector_extension_unavailable`
 */
export const requireAvailable = async (client: ClientBase): Promise<void> => {
  if (!(await stateOf(client)).is_available) throw extensionUnavailable();
};

// The server has no such files, or the platform's role may not install them.
const lacking = new Set(['0A000', '58P01', '42501']);
// Another request was quicker.
const overtaken = new Set(['23505', '42710']);

const failureOf = (error: unknown): unknown => {
  if (!(error instanceof DatabaseError)) return error;
  if (lacking.has(error.code ?? '')) return extensionUnavailable(error);
  if (error.code === '42710' || error.code === '42723') {
    return new ServiceError('conflict', 'Schema public has something of the same name as the vector extension.', {
      details: sqlError(error).message,
      hint: 'Rename or drop it.',
    });
  }
  return error;
};

const install = async (client: ClientBase): Promise<string> => {
  const before = await stateOf(client);
  if (before.installed !== null) return before.installed;
  if (!before.is_available) throw extensionUnavailable();
  try {
    // The first schemas in a session's search path: SQL says `vector`, without a schema.
    await client.query('create extension vector schema public');
  } catch (error) {
    const { installed } = await stateOf(client);
    if (installed !== null && error instanceof DatabaseError && overtaken.has(error.code ?? '')) return installed;
    throw failureOf(error);
  }
  return (await stateOf(client)).installed ?? '';
};

export interface EnableDeps extends ChangeListeners {
  readonly servers: Pick<DatabaseServers, 'connectTo'>;
}

/**
 * Puts pgvector into a project's database, as the platform: a project may not install it by itself everywhere. Again, it
 * changes nothing.
 * @returns its version
 * @throws {ServiceError} `vector_extension_unavailable`; `conflict` when the project has a type of that name
 */
export const enableVectors = async (
  deps: EnableDeps,
  project: Pick<Project, 'id' | 'server_id' | 'db_name'>,
): Promise<string> => {
  const client = await deps.servers.connectTo(project.server_id, project.db_name);
  try {
    return await install(client);
  } finally {
    noteChange(deps, project.id, { schema: true, rows: false });
    await client.end();
  }
};
