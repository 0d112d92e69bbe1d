import { type ClientBase, DatabaseError } from 'pg';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { type FenceDb, inCallersFence } from '../console/fence.ts';
import { sqlError } from '../console/sql-error.ts';
import { nearest } from '#lib/nearest.ts';
import { ServiceError } from '#lib/errors.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { withinBytes } from '#lib/postgres/within-bytes.ts';

type ReadDb = Pick<ProjectDb, 'use'>;

const timeoutMs = 10_000;
const lockTimeoutMs = 2000;

const inReadOnly = async <T>(client: ClientBase, work: (client: ClientBase) => Promise<T>): Promise<T> => {
  await client.query(
    `begin transaction isolation level repeatable read read only;
     set local statement_timeout = ${timeoutMs}; set local lock_timeout = ${lockTimeoutMs};
     set local search_path = pg_catalog, public`,
  );
  try {
    return await work(client);
  } catch (error) {
    throw error instanceof DatabaseError ? sqlError(error) : error;
  }
};

/**
 * Reads in one READ ONLY transaction, as the role that row-level security does not bind. What runs must not run code of
 * the project: the connection is lent again.
 * @throws {DataError} with the SQLSTATE as code
 */
export const reading = <T>(db: ReadDb, projectId: string, work: (client: ClientBase) => Promise<T>): Promise<T> =>
  db.use(projectId, 'service', async (client) => {
    try {
      return await inReadOnly(client, work);
    } finally {
      // Where that fails the connection is closed: it is still in the transaction.
      await client.query('rollback').catch(() => undefined);
    }
  });

interface ReadOf {
  readonly projectId: string;
  /** Aborted when nobody waits any more. */
  readonly signal: AbortSignal;
}

/**
 * As `reading`, of tables themselves: the planner works out what indexes, views and policies call of the project's
 * functions, so the session is closed afterwards.
 * @throws {DataError} with the SQLSTATE as code
 * @throws {CallerGone}
 */
export const readingTables = <T>(
  db: FenceDb,
  { projectId, signal }: ReadOf,
  work: (client: ClientBase) => Promise<T>,
): Promise<T> =>
  inCallersFence(db, { projectId, role: 'service', timeoutMs, signal }, (client) => inReadOnly(client, work));

/** A hint for an error that says that there is no such name. */
export const nearestHint = (wanted: string, names: readonly string[]): { readonly hint?: string } => {
  const name = nearest(wanted, names);
  return name === null ? {} : { hint: `Perhaps ${JSON.stringify(name)} was meant.` };
};

type RelationKind = 'table' | 'partitioned' | 'view' | 'materialized' | 'foreign';

export interface Relation {
  readonly oid: number;
  readonly name: string;
  readonly kind: RelationKind;
  /** The server's estimates of its pages and rows: -1 rows, never counted. */
  readonly pages: number;
  readonly estimate: number;
  readonly columns: number;
}

const kinds: Readonly<Record<string, RelationKind>> = {
  r: 'table',
  p: 'partitioned',
  v: 'view',
  m: 'materialized',
  f: 'foreign',
};

// Partitions are parts of their table, as PostgREST sees it, too.
const relationsSql = `
  select c.oid::int8::text as oid, c.relname as name, c.relkind::text as kind,
    coalesce(s.pages, c.relpages)::int8::text as pages, coalesce(s.rows, c.reltuples)::float8 as estimate,
    (select count(*) from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)::int as columns
  from pg_class c
  left join lateral (
    -- A partitioned table has rows in its partitions only.
    select sum(p.relpages) as pages, sum(greatest(p.reltuples, 0)) as rows
    from pg_partition_tree(c.oid) t join pg_class p on p.oid = t.relid where t.isleaf
  ) s on c.relkind = 'p'
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
  order by c.relname`;

interface RelationRow {
  readonly oid: string;
  readonly name: string;
  readonly kind: string;
  readonly pages: string;
  readonly estimate: number;
  readonly columns: number;
}

/** Tables and views of schema `public`, by name. */
export const listRelations = async (client: ClientBase): Promise<Relation[]> => {
  const { rows } = await client.query<RelationRow>(relationsSql);
  return rows.map((row) => ({
    ...row,
    oid: Number(row.oid),
    pages: Number(row.pages),
    kind: kinds[row.kind] ?? 'table',
  }));
};

/** @throws {ServiceError} `not_found`, with the nearest name as hint */
const requireRelation = async (client: ClientBase, name: string): Promise<Relation> => {
  const relations = await listRelations(client);
  const found = relations.find((relation) => relation.name === name);
  if (found) return found;
  const names = relations.map((relation) => relation.name);
  throw new ServiceError('not_found', `There is no table ${JSON.stringify(name)}.`, nearestHint(name, names));
};

/** The kinds of relations that count as tables: views do not. */
export const requireTable = async (client: ClientBase, name: string): Promise<Relation> => {
  const relation = await requireRelation(client, name);
  if (relation.kind === 'table' || relation.kind === 'partitioned' || relation.kind === 'foreign') return relation;
  throw new ServiceError('not_found', `There is no table ${JSON.stringify(name)}.`, {
    hint: 'There is a view of that name: change it by POST /db/query.',
  });
};

export interface ColumnDescription {
  readonly name: string;
  /** As `format_type` writes it: `character varying(40)`, `integer[]`. */
  readonly type: string;
  readonly nullable: boolean;
  readonly primary_key: boolean;
  /** An SQL expression. */
  readonly default: string | null;
  readonly generated: 'always' | 'by_default' | 'stored' | 'virtual' | null;
  readonly comment: string | null;
  readonly enum_values: string[] | null;
}

interface ForeignKey {
  readonly name: string;
  readonly columns: string[];
  readonly references: { readonly schema: string; readonly table: string; readonly columns: string[] };
  readonly on_update: string;
  readonly on_delete: string;
}

interface Index {
  readonly name: string;
  /** Expressions where no column is indexed. */
  readonly columns: string[];
  readonly unique: boolean;
  readonly primary: boolean;
  readonly valid: boolean;
  readonly method: string;
  readonly predicate: string | null;
  readonly definition: string;
}

interface Policy {
  readonly name: string;
  readonly command: 'ALL' | 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE';
  readonly permissive: boolean;
  readonly roles: string[];
  readonly using: string | null;
  readonly check: string | null;
}

export interface TableDescription {
  readonly name: string;
  readonly kind: RelationKind;
  readonly comment: string | null;
  readonly columns: ColumnDescription[];
  /** In the key's order; empty without one. */
  readonly primary_key: string[];
  readonly foreign_keys: ForeignKey[];
  readonly indexes: Index[];
  readonly uniques: { readonly name: string; readonly columns: string[] }[];
  readonly checks: { readonly name: string; readonly expression: string }[];
  readonly row_level_security: { readonly enabled: boolean; readonly forced: boolean; readonly policies: Policy[] };
}

const columnsSql = `
  select a.attname as name, format_type(a.atttypid, a.atttypmod) as type,
    not (a.attnotnull or (t.typtype = 'd' and t.typnotnull)) as nullable,
    exists (select from pg_index i where i.indrelid = a.attrelid and i.indisprimary and a.attnum = any (i.indkey))
      as primary_key,
    case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end as default,
    case when a.attidentity = 'a' then 'always' when a.attidentity = 'd' then 'by_default'
      when a.attgenerated = 's' then 'stored' when a.attgenerated = 'v' then 'virtual' end as generated,
    col_description(a.attrelid, a.attnum) as comment,
    (select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e
      where e.enumtypid = coalesce(nullif(t.typbasetype, 0), t.oid)) as enum_values
  from pg_attribute a
  join pg_type t on t.oid = a.atttypid
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
  order by a.attnum`;

const namesOf = (relation: string, numbers: string): string => `
  array(select a.attname::text from unnest(${numbers}) with ordinality as n (number, position)
    join pg_attribute a on a.attrelid = ${relation} and a.attnum = n.number order by n.position)`;

const action = (column: string): string => `
  case ${column} when 'a' then 'NO ACTION' when 'r' then 'RESTRICT' when 'c' then 'CASCADE' when 'n' then 'SET NULL'
    when 'd' then 'SET DEFAULT' end`;

const constraintsSql = `
  select c.contype::text as type, c.conname as name, ${namesOf('c.conrelid', 'c.conkey')} as columns,
    case when c.contype = 'c' then pg_get_expr(c.conbin, c.conrelid) end as expression,
    n.nspname as schema, r.relname as target, ${namesOf('c.confrelid', 'c.confkey')} as target_columns,
    ${action('c.confupdtype')} as on_update, ${action('c.confdeltype')} as on_delete
  from pg_constraint c
  left join pg_class r on r.oid = nullif(c.confrelid, 0)
  left join pg_namespace n on n.oid = r.relnamespace
  where c.conrelid = $1 and c.contype in ('p', 'f', 'u', 'c') and (c.contype <> 'f' or c.conparentid = 0)
  order by c.conname`;

const indexesSql = `
  select c.relname as name, i.indisunique as unique, i.indisprimary as primary, i.indisvalid as valid,
    m.amname as method, pg_get_expr(i.indpred, i.indrelid) as predicate, pg_get_indexdef(i.indexrelid) as definition,
    array(select coalesce(a.attname::text, pg_get_indexdef(i.indexrelid, k.position, true))
      from generate_series(1, i.indnkeyatts::int) as k (position)
      left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[k.position - 1] and a.attnum > 0
      order by k.position) as columns
  from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
  where i.indrelid = $1 order by c.relname`;

const policiesSql = `
  select p.polname as name, p.polpermissive as permissive,
    case p.polcmd when 'r' then 'SELECT' when 'a' then 'INSERT' when 'w' then 'UPDATE' when 'd' then 'DELETE'
      else 'ALL' end as command,
    array(select case r when 0 then 'public' else pg_get_userbyid(r)::text end
      from unnest(p.polroles) with ordinality as o (r, position) order by o.position) as roles,
    pg_get_expr(p.polqual, p.polrelid) as using, pg_get_expr(p.polwithcheck, p.polrelid) as check
  from pg_policy p where p.polrelid = $1 order by p.polname`;

const tableSql = `
  select obj_description(oid, 'pg_class') as comment, relrowsecurity as enabled, relforcerowsecurity as forced
  from pg_class where oid = $1`;

interface ConstraintRow {
  readonly type: 'p' | 'f' | 'u' | 'c';
  readonly name: string;
  readonly columns: string[];
  readonly expression: string | null;
  readonly schema: string | null;
  readonly target: string | null;
  readonly target_columns: string[];
  readonly on_update: string | null;
  readonly on_delete: string | null;
}

const foreignKeyOf = (row: ConstraintRow): ForeignKey => ({
  name: row.name,
  columns: row.columns,
  references: { schema: row.schema ?? '', table: row.target ?? '', columns: row.target_columns },
  on_update: row.on_update ?? '',
  on_delete: row.on_delete ?? '',
});

const keysOf = (rows: readonly ConstraintRow[]) => ({
  primary_key: rows.find(({ type }) => type === 'p')?.columns ?? [],
  foreign_keys: rows.filter(({ type }) => type === 'f').map(foreignKeyOf),
  uniques: rows.filter(({ type }) => type === 'u').map(({ name, columns }) => ({ name, columns })),
  checks: rows.flatMap(({ type, name, expression }) => (type === 'c' ? [{ name, expression: expression ?? '' }] : [])),
});

const describeRelation = async (client: ClientBase, { oid, name, kind }: Relation): Promise<TableDescription> => {
  const all = async <Row extends object>(sql: string): Promise<Row[]> => (await client.query<Row>(sql, [oid])).rows;
  const [table] = await all<{ comment: string | null; enabled: boolean; forced: boolean }>(tableSql);
  const { comment = null, enabled = false, forced = false } = table ?? {};
  return {
    name,
    kind,
    comment,
    columns: await all<ColumnDescription>(columnsSql),
    ...keysOf(await all<ConstraintRow>(constraintsSql)),
    indexes: await all<Index>(indexesSql),
    row_level_security: { enabled, forced, policies: await all<Policy>(policiesSql) },
  };
};

const maxBytes = 16 * 1024 * 1024;

/** The refusal for a description that is too large. The connection is gone: it is for whoever has given that back. */
export const tooLargeToDescribe = (error: unknown): unknown =>
  error instanceof AnswerTooLarge
    ? new ServiceError('payload_too_large', 'The description of the table is more than 16 MB.', {
        hint: 'Its comments and expressions count.',
      })
    : error;

/**
 * A table or view of schema `public`, as the session sees it.
 * @throws {ServiceError} `not_found`
 * @throws {AnswerTooLarge} above 16 MB; the connection is gone then
 */
export const describeTable = async (client: ClientBase, name: string): Promise<TableDescription> => {
  const relation = await requireRelation(client, name);
  return withinBytes(client, maxBytes, () => describeRelation(client, relation));
};

/** As `reading`, of descriptions. @throws {ServiceError} also `payload_too_large` */
export const describing: typeof reading = async (db, projectId, work) => {
  try {
    return await reading(db, projectId, work);
  } catch (error) {
    throw tooLargeToDescribe(error);
  }
};

/** @throws {ServiceError} `not_found`, with the nearest name as hint; `payload_too_large` */
export const tableSchema = (db: ReadDb, projectId: string, name: string): Promise<TableDescription> =>
  describing(db, projectId, (client) => describeTable(client, name));
