import type { ClientBase } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { nearestHint } from './nearest-hint.ts';

export type RelationKind = 'table' | 'partitioned' | 'view' | 'materialized' | 'foreign';

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
export const requireRelation = async (client: ClientBase, name: string): Promise<Relation> => {
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
