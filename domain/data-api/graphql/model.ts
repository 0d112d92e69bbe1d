import type { Relationship, Column, DataSchema, Table } from '../schema/schema.ts';
import type { DataCaller, DataDb, DataRun } from '../data-api.ts';
import { GraphQLError, type ASTNode } from 'graphql';

/** Whether GraphQL can hold a name. Two underscores at the beginning are GraphQL's own. */
export const isName = (name: string): boolean => /^(?!__)[A-Za-z_]\w*$/.test(name);

const withoutId = (column: string): string => column.replace(/_id$|(?<=[a-z0-9])I[dD]$/, '');

/** The foreign key's column without `_id`, else the name of the other table. */
const plainName = ({ holdsKey, columns, target }: Relationship): string => {
  const [column] = columns;
  if (!holdsKey || column === undefined || columns.length > 1) return target;
  const short = withoutId(column);
  return short === column ? target : short;
};

/** `posts_by_author_id`: the columns are the foreign key's, on whichever side it is. */
const longName = ({ holdsKey, columns, target, targetColumns }: Relationship): string =>
  `${target}_by_${(holdsKey ? columns : targetColumns).join('_')}`;

/**
 * The fields of a table's relationships. To one row: the foreign key's column without `_id` (`author`), else the other
 * table's name; to many: the other table's name. Those that would share a name, with each other or with a column, are
 * named after table and foreign key (`posts_by_author_id`), all of them, so that a further one renames no more than it
 * must.
 * @param taken names of columns
 */
const relationNames = (
  relationships: readonly Relationship[],
  taken: ReadonlySet<string>,
): Map<Relationship, string> => {
  const wanted = Map.groupBy(relationships, plainName);
  const used = new Set(taken);
  const names = new Map<Relationship, string>();
  const give = (relationship: Relationship, name: string): void => {
    if (!isName(name) || used.has(name) || used.has(`${name}_aggregate`)) return;
    used.add(name);
    if (relationship.kind === 'one-to-many') used.add(`${name}_aggregate`);
    names.set(relationship, name);
  };
  for (const [name, those] of wanted) if (those.length === 1) for (const one of those) give(one, name);
  for (const one of relationships) if (!names.has(one)) give(one, longName(one));
  return names;
};

/** A table as GraphQL shows it: what it can hold no name for is left out. */
export interface GraphTable {
  readonly name: string;
  readonly table: Table;
  readonly columns: ReadonlyMap<string, Column>;
  /** By the names of their fields. */
  readonly relations: ReadonlyMap<string, Relation>;
  /** The columns that name one row; empty where there is no primary key, or a part of it is left out. */
  readonly key: readonly Column[];
  /** Whether there is a column that an insert may name. */
  readonly insertable: boolean;
  /** The constraints that `on_conflict` may name, and the columns behind each. */
  readonly constraints: ReadonlyMap<string, readonly string[]>;
}

export interface Relation {
  readonly name: string;
  readonly relationship: Relationship;
  /** Whether it is a list. */
  readonly many: boolean;
  readonly target: GraphTable;
}

type RootKind =
  | 'list'
  | 'by_pk'
  | 'aggregate'
  | 'insert'
  | 'insert_one'
  | 'update'
  | 'update_by_pk'
  | 'delete'
  | 'delete_by_pk';

export interface RootField {
  readonly kind: RootKind;
  readonly table: GraphTable;
}

/** The tables, relations and names behind the fields of a project's GraphQL schema. */
export interface GraphModel {
  readonly tables: ReadonlyMap<string, GraphTable>;
  readonly queries: ReadonlyMap<string, RootField>;
  readonly mutations: ReadonlyMap<string, RootField>;
}

const suffixes = [
  'aggregate',
  'aggregate_fields',
  'avg_fields',
  'sum_fields',
  'min_fields',
  'max_fields',
  'bool_exp',
  'order_by',
  'select_column',
  'update_column',
  'insert_input',
  'set_input',
  'inc_input',
  'pk_columns_input',
  'obj_rel_insert_input',
  'arr_rel_insert_input',
  'constraint',
  'on_conflict',
  'mutation_response',
  'by_pk',
];

const reserved = ['query_root', 'mutation_root', 'order_by', 'Int', 'Float', 'String', 'Boolean', 'ID'];

const byName = (a: Table, b: Table): number => (a.name < b.name ? -1 : 1);

/** Tables in the order of their names; one whose types another has the names of is left out. */
const namedTables = (schema: DataSchema): Table[] => {
  const taken = new Set(reserved);
  const fits = (table: Table): boolean => {
    const names = [table.name, ...suffixes.map((suffix) => `${table.name}_${suffix}`)];
    if (![...table.columns.keys()].some(isName)) return false;
    if (!isName(table.name) || table.name.endsWith('_comparison_exp') || names.some((name) => taken.has(name)))
      return false;
    for (const name of names) taken.add(name);
    return true;
  };
  return [...schema.tables.values()].toSorted(byName).filter((table) => fits(table));
};

const constraintsOf = (table: Table): Map<string, readonly string[]> => {
  const found = new Map<string, readonly string[]>();
  const isKey = (columns: readonly string[]): boolean => columns.join('\0') === table.primaryKey.join('\0');
  for (const columns of table.uniques) {
    const name = isKey(columns) ? `${table.name}_pkey` : `${table.name}_${columns.join('_')}_key`;
    if (isName(name)) found.set(name, columns);
  }
  return found;
};

interface Growing extends GraphTable {
  readonly relations: Map<string, Relation>;
}

const graphTable = (table: Table): Growing => {
  const columns = new Map([...table.columns].filter(([name]) => isName(name)));
  const key = table.primaryKey.flatMap((name) => columns.get(name) ?? []);
  return {
    name: table.name,
    table,
    columns,
    relations: new Map(),
    insertable: table.insertable && [...columns.values()].some(({ generated }) => !generated),
    key: key.length === table.primaryKey.length ? key : [],
    constraints: constraintsOf(table),
  };
};

const isMany = ({ kind }: Relationship): boolean => kind === 'one-to-many';

const link = (table: Growing, tables: ReadonlyMap<string, Growing>): void => {
  const shown = table.table.relationships.filter(({ kind, target }) => kind !== 'many-to-many' && tables.has(target));
  const names = relationNames(shown, new Set(table.columns.keys()));
  for (const [relationship, name] of names) {
    const target = tables.get(relationship.target);
    if (target) table.relations.set(name, { name, relationship, many: isMany(relationship), target });
  }
};

const queriesOf = (table: GraphTable): [string, RootField][] => [
  [table.name, { kind: 'list', table }],
  [`${table.name}_aggregate`, { kind: 'aggregate', table }],
  ...(table.key.length > 0 ? [[`${table.name}_by_pk`, { kind: 'by_pk', table }] as [string, RootField]] : []),
];

const mutationsOf = (table: GraphTable): [string, RootField][] => {
  const { insertable } = table;
  const { updatable } = table.table;
  const found: [RootKind, string][] = [];
  const hasKey = table.key.length > 0;
  if (insertable) found.push(['insert', `insert_${table.name}`], ['insert_one', `insert_${table.name}_one`]);
  if (updatable) found.push(['update', `update_${table.name}`], ['delete', `delete_${table.name}`]);
  if (updatable && hasKey)
    found.push(['update_by_pk', `update_${table.name}_by_pk`], ['delete_by_pk', `delete_${table.name}_by_pk`]);
  return found.map(([kind, name]) => [name, { kind, table }]);
};

/** The first of a name has it. */
const firstOf = (entries: readonly [string, RootField][]): Map<string, RootField> => {
  const found = new Map<string, RootField>();
  for (const [name, field] of entries) if (!found.has(name)) found.set(name, field);
  return found;
};

/** Derives the GraphQL model of a project's tables. */
export const graphModel = (schema: DataSchema): GraphModel => {
  const tables = new Map(namedTables(schema).map((table) => [table.name, graphTable(table)]));
  for (const table of tables.values()) link(table, tables);
  const all = [...tables.values()];
  return {
    tables,
    queries: firstOf(all.flatMap((table) => queriesOf(table))),
    mutations: firstOf(all.flatMap((table) => mutationsOf(table))),
  };
};

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

/** A problem of a request, with a code for programs and, where there is one, the place in the document. */
export const failure = (code: string, message: string, node?: ASTNode, hint?: string): GraphQLError =>
  new GraphQLError(message, {
    extensions: { code, ...(hint !== undefined && { hint }) },
    ...(node && { nodes: node }),
  });
