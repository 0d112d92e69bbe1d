import type { Column, DataSchema, Relationship, Table } from '#domain/data-api/schema/types.ts';
import { isName, relationNames } from './names.ts';

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
