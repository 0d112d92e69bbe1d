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

/** All tables of a GraphQL schema, or those that are visible, by the names of their fields. */
export interface WholeModel {
  readonly tables: ReadonlyMap<string, GraphTable>;
  readonly queries: ReadonlyMap<string, RootField>;
  readonly mutations: ReadonlyMap<string, RootField>;
}

/**
 * The tables, relations and names behind the fields of a project's GraphQL schema, found by name: a request names a few
 * of what may be thousands.
 */
export interface GraphModel {
  readonly schema: DataSchema;
  readonly table: (name: string) => GraphTable | undefined;
  readonly query: (name: string) => RootField | undefined;
  readonly mutation: (name: string) => RootField | undefined;
}

/** The endings of the names of a table's types and fields. */
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
] as const;

export type Suffix = (typeof suffixes)[number];

/** The ways to read a name as that of a table and an ending. */
export const endings = (name: string): readonly (readonly [table: string, suffix: Suffix])[] =>
  suffixes.flatMap((suffix) =>
    name.endsWith(`_${suffix}`) ? [[name.slice(0, -suffix.length - 1), suffix] as const] : [],
  );

const reserved = new Set(['query_root', 'mutation_root', 'order_by', 'Int', 'Float', 'String', 'Boolean', 'ID']);

/**
 * Whether GraphQL can have a table: it has columns that GraphQL can name, and where its types have the names of
 * another's, it comes before that one in the order of names.
 */
const fittingIn = (tables: DataSchema['tables']): ((name: string) => boolean) => {
  const known = new Map<string, boolean>();
  const hasOwner = (name: string, before: string): boolean =>
    endings(name).some(([owner]) => owner < before && fits(owner));
  const find = (name: string): boolean => {
    if (tables.get(name)?.hasPlainColumns !== true || !isName(name) || name.endsWith('_comparison_exp')) return false;
    const names = [name, ...suffixes.map((suffix) => `${name}_${suffix}`)];
    return !names.some((one) => reserved.has(one) || hasOwner(one, name));
  };
  // Each asks only about names before its own, and these are shorter than 64 letters.
  const fits = (name: string): boolean => {
    const found = known.get(name) ?? find(name);
    if (tables.has(name)) known.set(name, found);
    return found;
  };
  return fits;
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

const isMany = ({ kind }: Relationship): boolean => kind === 'one-to-many';

type Relations = GraphTable['relations'];

/** A table has so many relations in GraphQL, because somebody could make thousands of foreign keys. */
const maxRelations = 500;

/** The relations that lead to tables which `find` has. */
const relationsOf = (
  table: Table,
  columns: GraphTable['columns'],
  find: (name: string) => GraphTable | undefined,
): Relations => {
  const shown = table.relationships
    .filter(({ kind }) => kind !== 'many-to-many')
    .slice(0, maxRelations)
    .filter(({ target }) => find(target) !== undefined);
  const relations = new Map<string, Relation>();
  for (const [relationship, name] of relationNames(shown, new Set(columns.keys()))) {
    const target = find(relationship.target);
    if (target) relations.set(name, { name, relationship, many: isMany(relationship), target });
  }
  return relations;
};

/** Its relations are found when they are first asked for: they lead to all that is connected. */
const graphTable = (table: Table, find: (name: string) => GraphTable | undefined): GraphTable => {
  let facts: Omit<GraphTable, 'name' | 'table' | 'relations'> | undefined;
  let relations: Relations | undefined;
  const read = (): NonNullable<typeof facts> => {
    const columns = new Map([...table.columns].filter(([name]) => isName(name)));
    const key = table.primaryKey.flatMap((name) => columns.get(name) ?? []);
    return {
      columns,
      insertable: table.insertable && [...columns.values()].some(({ generated }) => !generated),
      key: key.length === table.primaryKey.length ? key : [],
      constraints: constraintsOf(table),
    };
  };
  const own = (): NonNullable<typeof facts> => (facts ??= read());
  return {
    name: table.name,
    table,
    get columns() {
      return own().columns;
    },
    get insertable() {
      return own().insertable;
    },
    get key() {
      return own().key;
    },
    get constraints() {
      return own().constraints;
    },
    get relations() {
      return (relations ??= relationsOf(table, own().columns, find));
    },
  };
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

const byName = (a: string, b: string): number => (a < b ? -1 : 1);

const mutationName = /^(?:insert|update|delete)_(.+)$/;

/** The tables that a mutation may be about, by its name: `insert_a_one` inserts one row of `a`, or rows of `a_one`. */
const tablesOfMutation = (name: string): string[] => {
  const [, rest] = mutationName.exec(name) ?? [];
  if (rest === undefined) return [];
  return [...new Set([rest, rest.replace(/_one$/, ''), rest.replace(/_by_pk$/, '')])].toSorted(byName);
};

const isThere = (table: GraphTable | undefined): table is GraphTable => table !== undefined;

/** Derives the GraphQL model of a project's tables. */
export const graphModel = (schema: DataSchema): GraphModel => {
  const made = new Map<string, GraphTable>();
  const fits = fittingIn(schema.tables);
  const make = (name: string): GraphTable | undefined => {
    const table = schema.tables.get(name);
    return table && fits(name) ? graphTable(table, find) : undefined;
  };
  const find = (name: string): GraphTable | undefined => {
    const found = made.get(name) ?? make(name);
    if (found) made.set(name, found);
    return found;
  };
  const rootOf = (
    name: string,
    owners: readonly string[],
    fieldsOf: (table: GraphTable) => [string, RootField][],
  ): RootField | undefined => firstOf(owners.map(find).filter(isThere).flatMap(fieldsOf)).get(name);
  return {
    schema,
    table: find,
    query: (name) => rootOf(name, [name, ...endings(name).map(([table]) => table)], queriesOf),
    mutation: (name) => rootOf(name, tablesOfMutation(name), mutationsOf),
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

/** The tables that are looked at: thousands of which none fits are no usual project. */
const maxEmpty = 100;

/** Whether GraphQL has none of the tables. */
export const isEmpty = ({ schema: { tables }, table }: GraphModel): boolean =>
  tables.size <= maxEmpty && !tables.keys().some((name) => table(name) !== undefined);

type Copies = ReadonlyMap<string, GraphTable & { readonly relations: Map<string, Relation> }>;

const copyOf = ({ name, table, columns, insertable, key, constraints }: GraphTable) => ({
  name,
  table,
  columns,
  insertable,
  key,
  constraints,
  relations: new Map<string, Relation>(),
});

/** The fields of the tables that have their names in the model: another table may have some of them. */
const rootsIn = (
  copies: Copies,
  fieldsOf: (table: GraphTable) => [string, RootField][],
  find: (name: string) => RootField | undefined,
): Map<string, RootField> =>
  new Map([...copies.values()].flatMap(fieldsOf).filter(([name, { table }]) => find(name)?.table.name === table.name));

/**
 * All tables under the same names, or those that are visible, and what leads to them.
 * @param visible names of tables; null: all
 */
export const wholeModel = (model: GraphModel, visible: ReadonlySet<string> | null): WholeModel => {
  const shown = [...model.schema.tables.keys()]
    .filter((name) => visible === null || visible.has(name))
    .toSorted(byName)
    .map(model.table)
    .filter(isThere);
  const copies: Copies = new Map(shown.map((table) => [table.name, copyOf(table)]));
  for (const { name, relations } of shown)
    for (const relation of relations.values()) {
      const target = copies.get(relation.target.name);
      if (target) copies.get(name)?.relations.set(relation.name, { ...relation, target });
    }
  return {
    tables: copies,
    queries: rootsIn(copies, queriesOf, model.query),
    mutations: rootsIn(copies, mutationsOf, model.mutation),
  };
};

/** A problem of a request, with a code for programs and, where there is one, the place in the document. */
export const failure = (code: string, message: string, node?: ASTNode, hint?: string): GraphQLError =>
  new GraphQLError(message, {
    extensions: { code, ...(hint !== undefined && { hint }) },
    ...(node && { nodes: node }),
  });
