import { type ClientBase, DatabaseError } from 'pg';
import { closingItems, foreignPolicies } from './closing.ts';
import { type Alias, type Catalog, type Dependency, type Item, inOrder, ranks, read } from './item.ts';
import { relationItems } from './relations.ts';
import { tableItems } from './tables.ts';
import { typeItems } from './types.ts';
import { DataError } from '#domain/data-api/errors.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { withinBytes } from '#lib/postgres/within-bytes.ts';
import { stopQuery } from '#domain/data-api/stop-query.ts';

// Objects that the platform made belong to it, as does its schema `plinth`.
const userSchemas = `
  select n.oid from pg_namespace n
  where n.nspname = 'public' or n.nspname !~ '^(pg_|plinth)' and n.nspname <> 'information_schema'
    and n.nspowner <> (select nspowner from pg_namespace where nspname = 'plinth')
    and not exists (select from pg_depend e where e.classid = 'pg_namespace'::regclass and e.objid = n.oid and e.deptype = 'e')`;

// A column's own sequence is made before the table that draws from it. Below 16384 is what every database holds.
const dependenciesSql = `
  select distinct concat(d.classid::regclass, ':', d.objid) as key, concat(d.refclassid::regclass, ':', d.refobjid) as on
  from pg_depend d left join pg_class s on d.classid = 'pg_class'::regclass and s.oid = d.objid and s.relkind = 'S'
  where d.objid >= 16384 and d.refobjid >= 16384 and not (s.oid is not null and d.deptype = 'a')`;

const aliasesSql = `
  select 'pg_type:' || t.oid as key, 'pg_class:' || t.typrelid as of from pg_type t where t.typrelid <> 0 and t.oid >= 16384
  union all select 'pg_type:' || t.oid, 'pg_type:' || t.typelem from pg_type t
    where t.oid >= 16384 and t.typelem <> 0 and t.typcategory = 'A'
  union all select 'pg_type:' || r.rngmultitypid, 'pg_type:' || r.rngtypid from pg_range r where r.rngtypid >= 16384
  union all select 'pg_constraint:' || k.oid, 'pg_type:' || k.contypid from pg_constraint k where k.contypid <> 0 and k.oid >= 16384
  union all select 'pg_rewrite:' || r.oid, 'pg_class:' || r.ev_class from pg_rewrite r where r.rulename = '_RETURN' and r.oid >= 16384`;

/** Kinds of objects that need more rights than a project has to restore, or that hardly anybody has. */
const leftOutSql = `
  select 'collation ' || format('%I.%I', collnamespace::regnamespace, collname) as name from pg_collation where collnamespace = any ($1::oid[])
  union all select 'operator ' || oid::regoperator from pg_operator o where oprnamespace = any ($1::oid[])
    and not exists (select from pg_depend e where e.classid = 'pg_operator'::regclass and e.objid = o.oid and e.deptype = 'e')
  union all select 'text search configuration ' || oid::regconfig from pg_ts_config where cfgnamespace = any ($1::oid[])
  union all select 'foreign table ' || oid::regclass from pg_class where relkind = 'f' and relnamespace = any ($1::oid[])
  union all select 'aggregate ' || aggfnoid::oid::regprocedure from pg_aggregate a join pg_proc p on p.oid = a.aggfnoid
    where a.aggkind <> 'n' and p.pronamespace = any ($1::oid[])
  union all ${foreignPolicies}
  order by 1`;

/** The beginning of a dump: names are qualified, and objects that functions name may come after them. */
const preamble = [`set check_function_bodies = off;`, `select pg_catalog.set_config('search_path', '', false);`].join(
  '\n',
);

/** Reads in one snapshot, with every name qualified. */
const inSnapshot = async <T>(
  client: ClientBase,
  timeoutMs: number,
  work: (catalog: Catalog) => Promise<T>,
): Promise<T> => {
  await client.query(
    `begin isolation level repeatable read read only; set local search_path = ''; set local statement_timeout = ${timeoutMs}`,
  );
  try {
    const { rows } = await client.query<{ oid: number }>(userSchemas);
    return await work({ client, schemas: rows.map(({ oid }) => oid) });
  } finally {
    await client.query('rollback');
  }
};

const statementsOf = (items: readonly Item[]): string => items.map(({ sql }) => `${sql};`).join('\n\n');

/** Tables, views, functions, types and sequences: 0.1 s of the event loop, in which they are put in order. */
const maxObjects = 20_000;
/** With keys, indexes, policies, comments and grants. */
const maxStatements = 100_000;
/** Pairs of objects of which one needs the other. */
const maxDependencies = 200_000;

const tooMany = (): ServiceError =>
  new ServiceError('payload_too_large', 'The schema has too many objects to be written as SQL.', {
    hint: `It may have ${maxObjects} tables, views, functions, types and sequences, and ${maxStatements} objects in all.`,
  });

/** The statements that recreate a schema, each after its dependencies: those that stand before the rows, and the others. */
const itemsOf = async (catalog: Catalog): Promise<{ making: readonly Item[]; closing: readonly Item[] }> => {
  const tables = await tableItems(catalog);
  const items = [
    ...(await relationItems(catalog)),
    ...(await typeItems(catalog)),
    ...tables.items,
    ...(await closingItems(catalog)),
  ];
  const aliases = [...tables.aliases, ...(await read<Alias>(catalog, aliasesSql))];
  const dependencies = await read<Dependency>(catalog, dependenciesSql);
  const made = items.filter(({ rank }) => rank < ranks.ownedBy);
  if (made.length > maxObjects || items.length > maxStatements || dependencies.length > maxDependencies)
    throw tooMany();
  const closing = items
    .filter(({ rank }) => rank >= ranks.ownedBy)
    .toSorted((a, b) => a.rank - b.rank || (a.name < b.name ? -1 : 1));
  return { making: inOrder(made, dependencies, aliases), closing };
};

/** The statements of a schema as parts of a copy. */
export interface SchemaParts {
  readonly preamble: string;
  /** Tables and what they need; their rows may come after these. */
  readonly before: readonly string[];
  /** Keys, indexes, triggers, policies, grants. */
  readonly after: readonly string[];
  /** The numbers of the schemas that are the project's. */
  readonly schemas: readonly number[];
}

const generateSchema = async (catalog: Catalog): Promise<string> => {
  const { making, closing } = await itemsOf(catalog);
  const leftOut = await read<{ name: string }>(catalog, leftOutSql);
  const missing = leftOut.map(({ name }) => `-- Not included: ${name.replaceAll(/[\r\n]/g, ' ')}\n`).join('');
  return `${missing}${statementsOf([...making, ...closing])}\n`;
};

type SchemaDb = Pick<ProjectDb, 'use' | 'endSession'>;

const timeoutMs = 30_000;
const maxBytes = 32 * 1024 * 1024;
/** All that is read for it: with each object's name and what it depends on. */
const maxReadBytes = 2 * maxBytes;

const tooLarge = (): ServiceError => new ServiceError('payload_too_large', 'The schema is larger than 32 MB as SQL.');

const failed = (error: unknown): unknown =>
  error instanceof DatabaseError && error.code === '57014'
    ? new DataError(504, '57014', `Reading the schema took more than ${timeoutMs / 1000} s.`)
    : error;

/** Also ends a dump that a lock delays beyond its own time-out. */
const watched = async <T>(
  tenantDb: SchemaDb,
  running: { readonly projectId: string; readonly client: ClientBase },
  work: () => Promise<T>,
): Promise<T> => {
  const ended = new AbortController();
  const overdue = setTimeout(() => void stopQuery(tenantDb, { ...running, ended: ended.signal }), 2 * timeoutMs);
  try {
    return await work();
  } finally {
    clearTimeout(overdue);
    ended.abort();
  }
};

const readSchema = async <T>(
  tenantDb: SchemaDb,
  projectId: string,
  work: (catalog: Catalog) => Promise<T>,
): Promise<T> => {
  const read = (client: ClientBase): Promise<T> =>
    watched(tenantDb, { projectId, client }, () => inSnapshot(client, timeoutMs, work));
  try {
    return await tenantDb.use(projectId, 'owner', (client) => withinBytes(client, maxReadBytes, () => read(client)));
  } catch (error) {
    throw error instanceof AnswerTooLarge ? tooLarge() : failed(error);
  }
};

/**
 * The schema of a project's database as SQL that recreates it in an empty project: all but rows, owners and the
 * platform's own objects. The same schema gives the same text on every installation; what it leaves out stands at the
 * top.
 * @throws {DataError} 57014 after 30 s
 * @throws {ServiceError} `payload_too_large` over 32 MB, or with too many objects
 */
export const dumpSchema = async (tenantDb: SchemaDb, projectId: string): Promise<string> => {
  const sql = await readSchema(
    tenantDb,
    projectId,
    async (catalog) => `${preamble}\n\n${await generateSchema(catalog)}`,
  );
  if (Buffer.byteLength(sql) > maxBytes) throw tooLarge();
  return sql;
};

/**
 * The same in parts, between which the rows of a copy have their place.
 * @throws as `dumpSchema`
 */
export const dumpSchemaParts = async (tenantDb: SchemaDb, projectId: string): Promise<SchemaParts> => {
  const parts = await readSchema(tenantDb, projectId, async (catalog) => {
    const { making, closing } = await itemsOf(catalog);
    return {
      preamble,
      before: making.map(({ sql }) => sql),
      after: closing.map(({ sql }) => sql),
      schemas: catalog.schemas,
    };
  });
  const length = [...parts.before, ...parts.after].reduce((sum, sql) => sum + Buffer.byteLength(sql), 0);
  if (length > maxBytes) throw tooLarge();
  return parts;
};
