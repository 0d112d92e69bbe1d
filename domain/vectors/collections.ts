import { type ClientBase, DatabaseError, escapeIdentifier } from 'pg';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import type { FenceDb } from '#domain/database/console/fence.ts';
import { sqlError } from '#domain/database/console/sql-error.ts';
import { type ChangeListeners, noteChange } from '#domain/database/database.ts';
import { nearestHint, reading } from '#domain/database/tables/describe.ts';
import { type ChangeOf, type TableChangeDeps, changing } from '#domain/database/tables/table-changes.ts';
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
const requireAvailable = async (client: ClientBase): Promise<void> => {
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

interface EnableDeps extends ChangeListeners {
  readonly servers: Pick<DatabaseServers, 'connectTo'>;
}

/**
 * Puts pgvector into a project's database, as the platform: a project may not install it by itself everywhere. Again,
 * it changes nothing.
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

/** A table of documents with vectors, as the catalog has it just now. */
export interface Collection {
  readonly relation: string;
  readonly name: string;
  /** The schema of pgvector's types and operators. */
  readonly type_schema: string;
  /** The number of its type `vector`, which differs between databases. */
  readonly vector_type: number;
  readonly column_type: 'vector' | 'halfvec';
  readonly dimensions: number;
  readonly is_indexed: boolean;
  /** The model by which its documents are embedded, `provider/model`; null until there is one. */
  readonly model: string | null;
  readonly document_count: number;
  /** ISO 8601. */
  readonly created_at: string;
}

const columns = `c.relation::pg_catalog.int8::pg_catalog.text as relation, c.name, c.type_schema,
  c.vector_type::pg_catalog.int8::pg_catalog.float8 as vector_type, c.column_type, c.dimensions, c.is_indexed, c.model,
  c.document_count::pg_catalog.float8 as document_count,
  pg_catalog.to_char(c.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at`;

const readAll = async (client: ClientBase): Promise<Collection[]> =>
  (await client.query<Collection>(`select ${columns} from plinth_api.collections() c`)).rows;

/**
 * In an open transaction.
 * @throws {ServiceError} `not_found` with the nearest name as hint, `vector_extension_unavailable`
 */
export const requireCollection = async (client: ClientBase, name: string): Promise<Collection> => {
  const all = await readAll(client);
  const found = all.find((collection) => collection.name === name);
  if (found) return found;
  if (all.length === 0) await requireAvailable(client);
  const hint = nearestHint(
    name,
    all.map((collection) => collection.name),
  );
  throw new ServiceError('not_found', `There is no collection ${JSON.stringify(name)}.`, hint);
};

/** @throws as `requireCollection` */
export const getCollection = (db: FenceDb, projectId: string, name: string): Promise<Collection> =>
  reading(db, projectId, (client) => requireCollection(client, name));

/** By name. @throws {ServiceError} `vector_extension_unavailable` */
export const listCollections = (
  db: FenceDb,
  projectId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ readonly collections: Collection[]; readonly total: number }> =>
  reading(db, projectId, async (client) => {
    const all = await readAll(client);
    if (all.length === 0) await requireAvailable(client);
    return { collections: all.slice(offset, offset + limit), total: all.length };
  });

/** The most dimensions that pgvector's HNSW can index, by type, and that a `vector` can hold. */
export const maxIndexed = { vector: 2000, halfvec: 4000 } as const;
export const maxDimensions = 16_000;

interface Form {
  readonly type: 'vector' | 'halfvec';
  readonly isIndexed: boolean;
}

const formOf = (dimensions: number): Form => {
  if (dimensions <= maxIndexed.vector) return { type: 'vector', isIndexed: true };
  if (dimensions <= maxIndexed.halfvec) return { type: 'halfvec', isIndexed: true };
  return { type: 'vector', isIndexed: false };
};

// Links of a document, and candidates for them. With pgvector's own 16 and 64 writing takes more than twice as long;
// searches read more candidates than they need (search.ts), which makes up for it.
const build = 'm = 12, ef_construction = 32';

const createSql = (name: string, dimensions: number, schema: string): string[] => {
  const { type, isIndexed } = formOf(dimensions);
  const [table, types] = [`public.${escapeIdentifier(name)}`, escapeIdentifier(schema)];
  return [
    `create table ${table} (
      id text primary key,
      content text not null,
      metadata jsonb not null default '{}',
      embedding ${types}.${type}(${dimensions}) not null,
      content_hash bytea not null,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now())`,
    ...(isIndexed
      ? [`create index on ${table} using hnsw (embedding ${types}.${type}_cosine_ops) with (${build})`]
      : []),
    `create index on ${table} using gin (metadata jsonb_path_ops)`,
    // With no policy yet, end users see none of it.
    `alter table ${table} enable row level security`,
    `select plinth_api.add_collection('${table}'::regclass)`,
  ];
};

const schemaOf = async (client: ClientBase): Promise<string> => {
  const { rows } = await client.query<{ schema: string }>(
    `select n.nspname as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'`,
  );
  return rows[0]?.schema ?? 'public';
};

/** When two callers create the same table at once, one may find it in an index of the catalog, not by its name. */
const whenOvertaken = (error: unknown): never => {
  if (!(error instanceof DatabaseError) || error.code !== '23505' || error.schema !== 'pg_catalog') throw error;
  throw new ServiceError('conflict', 'There is a table of this name already.', { cause: error });
};

interface NewCollection {
  readonly name: string;
  /** 1 to 16,000. */
  readonly dimensions: number;
}

/**
 * Makes the table and its indexes, as the project's owner; pgvector is in the database (`enableVectors`).
 * @throws {ServiceError} `conflict` when there is something of that name
 * @throws {DataError} `plan_limit_exceeded`: it counts as a table
 */
export const createCollection = (
  deps: TableChangeDeps,
  of: ChangeOf,
  { name, dimensions }: NewCollection,
): Promise<Collection> =>
  changing(deps, of, async (client) => {
    const schema = await schemaOf(client);
    for (const sql of createSql(name, dimensions, schema)) await client.query(sql).catch(whenOvertaken);
    return requireCollection(client, name);
  });

/** @throws {ServiceError} `not_found`; `conflict` when something depends on it */
export const dropCollection = (deps: TableChangeDeps, of: ChangeOf, name: string): Promise<void> =>
  changing(deps, of, async (client) => {
    await requireCollection(client, name);
    await client.query(`drop table public.${escapeIdentifier(name)}`);
  });
