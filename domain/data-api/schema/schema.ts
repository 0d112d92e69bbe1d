import type { DataRole } from '../data-api.ts';

/**
 * The data API's knowledge of one schema of a project's database: its relations, columns, keys and functions, from the
 * catalog. Read by `introspect.ts`, kept by `cache.ts`.
 */
export interface DataSchema {
  /** `public`, or another one that the project exposes. */
  readonly name: string;
  /** Changes with every change of the schema (`plinth.schema_changes`). */
  readonly version: string;
  readonly tables: ReadonlyMap<string, Table>;
  /** By name; several when they are overloaded. */
  readonly routines: ReadonlyMap<string, readonly Routine[]>;
}

export type TableKind = 'table' | 'partitioned' | 'view' | 'materialized' | 'foreign';

export interface Table {
  readonly name: string;
  /** Qualified and quoted, for SQL. */
  readonly sql: string;
  readonly kind: TableKind;
  readonly comment: string | null;
  readonly rowSecurity: boolean;
  /** By name, in the table's order. */
  readonly columns: ReadonlyMap<string, Column>;
  /** Columns of the primary key, in its order; empty without one. */
  readonly primaryKey: readonly string[];
  /** Columns of each unique constraint and full unique index, the primary key included. */
  readonly uniques: readonly (readonly string[])[];
  readonly relationships: readonly Relationship[];
  readonly insertable: boolean;
  readonly updatable: boolean;
}

export interface Column {
  readonly name: string;
  /** As `format_type` writes it: `character varying(40)`, `integer[]`, `mood`. */
  readonly type: string;
  /**
   * The type's own name without modifiers, an array's with `_` before it: `varchar`, `_int4`, `mood`. Of a domain, its
   * base.
   */
  readonly baseType: string;
  readonly nullable: boolean;
  /** The expression of its default, as the server writes it; null without one. */
  readonly default: string | null;
  /** Written by the server alone: GENERATED ALWAYS, as an expression or as an identity. */
  readonly generated: boolean;
  readonly comment: string | null;
  /** The labels of an enumeration. */
  readonly enumValues: readonly string[] | null;
}

/** How a row of one table finds rows of another. */
export interface Relationship {
  /** The constraint's name; of a many-to-many relationship both, joined by a space. */
  readonly constraint: string;
  readonly kind: 'many-to-one' | 'one-to-many' | 'one-to-one' | 'many-to-many';
  /** True where this table holds the foreign key itself. */
  readonly holdsKey: boolean;
  readonly columns: readonly string[];
  /** The other table's name. */
  readonly target: string;
  readonly targetColumns: readonly string[];
  /** The table between, of a many-to-many relationship. */
  readonly junction: Junction | null;
}

export interface Junction {
  readonly table: string;
  /** Qualified and quoted, for SQL. */
  readonly sql: string;
  readonly constraints: readonly [near: string, far: string];
  /** Its columns that refer to this table, in the order of `columns`. */
  readonly nearColumns: readonly string[];
  /** Its columns that refer to the target, in the order of `targetColumns`. */
  readonly farColumns: readonly string[];
}

export interface Routine {
  readonly name: string;
  readonly sql: string;
  readonly comment: string | null;
  readonly parameters: readonly Parameter[];
  readonly variadic: boolean;
  readonly volatility: 'immutable' | 'stable' | 'volatile';
  readonly returns: {
    /** As `format_type` writes it; `record` of a RETURNS TABLE. */
    readonly type: string;
    readonly set: boolean;
    /** Whether rows come back and not single values. */
    readonly composite: boolean;
    /** The table of the same schema whose rows come back, if any: what can be embedded in. */
    readonly table: string | null;
    readonly void: boolean;
  };
}

export interface Parameter {
  /** Empty where the function names none. */
  readonly name: string;
  readonly type: string;
  readonly optional: boolean;
}

/** Schemas of projects, as fresh as the contract asks: own changes at once, those made elsewhere within 5 s. */
export interface SchemaCache {
  /**
   * @param role whose connections it is asked over, when it has to be: who uses up those of one role does not keep the
   *   others waiting
   * @param schema left out: public
   */
  readonly get: (projectId: string, role?: DataRole, schema?: string) => Promise<DataSchema>;
  /**
   * Handles a request that does not fit `known` (an unknown name, an error about one): asks the database for its
   * version, and reads the schema again when it has changed.
   * @returns null when `known` is as the database is: the request was wrong
   */
  readonly newer: (projectId: string, known: DataSchema, role?: DataRole) => Promise<DataSchema | null>;
  /** Reports that the schema of a project was changed through the platform; the other processes are notified. */
  readonly changed: (projectId: string) => void;
}

export interface ForeignKey {
  readonly name: string;
  readonly table: string;
  readonly target: string;
  readonly columns: readonly string[];
  readonly targetColumns: readonly string[];
}

/** Whether at most one row has given values in these columns: a unique key lies within them. */
const isUnique = (table: Table, columns: readonly string[]): boolean =>
  table.uniques.some((key) => key.every((column) => columns.includes(column)));

const directOf = (key: ForeignKey, table: Table): readonly [near: Relationship, far: Relationship] => {
  const { name, target, columns, targetColumns } = key;
  const single = isUnique(table, columns);
  return [
    {
      constraint: name,
      kind: single ? 'one-to-one' : 'many-to-one',
      holdsKey: true,
      columns,
      target,
      targetColumns,
      junction: null,
    },
    {
      constraint: name,
      kind: single ? 'one-to-one' : 'one-to-many',
      holdsKey: false,
      columns: targetColumns,
      target: key.table,
      targetColumns: columns,
      junction: null,
    },
  ];
};

/** A table whose primary key holds both keys stands between their targets: its rows are the pairs. */
const isJunction = (table: Table, one: ForeignKey, other: ForeignKey): boolean =>
  one !== other && [...one.columns, ...other.columns].every((column) => table.primaryKey.includes(column));

const throughOf = (table: Table, near: ForeignKey, far: ForeignKey): Relationship => ({
  constraint: `${near.name} ${far.name}`,
  kind: 'many-to-many',
  holdsKey: false,
  columns: near.targetColumns,
  target: far.target,
  targetColumns: far.targetColumns,
  junction: {
    table: table.name,
    sql: table.sql,
    constraints: [near.name, far.name],
    nearColumns: near.columns,
    farColumns: far.columns,
  },
});

/** Every way from a table to another, by foreign keys: there, back, and across tables that stand between. */
export const relationshipsOf = (
  tables: ReadonlyMap<string, Table>,
  foreignKeys: readonly ForeignKey[],
): ReadonlyMap<string, readonly Relationship[]> => {
  const found = new Map<string, Relationship[]>();
  const add = (table: string, relationship: Relationship): void => {
    found.set(table, [...(found.get(table) ?? []), relationship]);
  };
  for (const key of foreignKeys) {
    const table = tables.get(key.table);
    if (table === undefined) continue;
    const [near, far] = directOf(key, table);
    add(key.table, near);
    add(key.target, far);
    for (const other of foreignKeys)
      if (other.table === key.table && isJunction(table, key, other)) add(key.target, throughOf(table, key, other));
  }
  return found;
};
