import type { DataCaller, DataDb, DataRun } from '#domain/data-api/db.ts';
import type { GraphModel, GraphTable, Relation, RootField } from './model.ts';

/** Returns the tables that the caller's role may use in any way, as in the REST API's own document. */
const visibleSql = `select coalesce(pg_catalog.json_agg(c.relname order by c.relname), '[]')::text
  from pg_catalog.pg_class c
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and (pg_catalog.has_table_privilege(c.oid, 'select, insert, update, delete')
      or pg_catalog.has_any_column_privilege(c.oid, 'select, insert, update'))`;

/** The names of the tables that a caller may see; null: all of them. */
export const visibleTables = async (
  caller: DataCaller,
  run: DataRun,
  data: DataDb,
): Promise<ReadonlySet<string> | null> => {
  if (caller.role === 'service') return null;
  const [text] = await data.one(caller, { mode: 'read', signal: run.signal }, { text: visibleSql, params: [] });
  return new Set(JSON.parse(text ?? '[]') as string[]);
};

type Copies = ReadonlyMap<string, GraphTable & { readonly relations: Map<string, Relation> }>;

const rootsIn = (roots: GraphModel['queries'], copies: Copies): Map<string, RootField> =>
  new Map(
    [...roots].flatMap(([name, { kind, table }]): [string, RootField][] => {
      const copy = copies.get(table.name);
      return copy ? [[name, { kind, table: copy }]] : [];
    }),
  );

/** The same under the same names, without the tables that are not visible, and what leads to them. */
export const reducedModel = (model: GraphModel, visible: ReadonlySet<string>): GraphModel => {
  const shown = [...model.tables.values()].filter(({ name }) => visible.has(name));
  const copies: Copies = new Map(shown.map((table) => [table.name, { ...table, relations: new Map() }]));
  for (const { name, relations } of shown)
    for (const relation of relations.values()) {
      const target = copies.get(relation.target.name);
      if (target) copies.get(name)?.relations.set(relation.name, { ...relation, target });
    }
  return { tables: copies, queries: rootsIn(model.queries, copies), mutations: rootsIn(model.mutations, copies) };
};
