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
  /** The base types of all columns. */
  readonly baseTypes: ReadonlySet<string>;
  /** The length of what was read. */
  readonly bytes: number;
}

export type TableKind = 'table' | 'partitioned' | 'view' | 'materialized' | 'foreign';

export interface Table {
  readonly name: string;
  /** Qualified and quoted, for SQL. */
  readonly sql: string;
  readonly kind: TableKind;
  readonly comment: string | null;
  readonly rowSecurity: boolean;
  /** Whether a column has a name of Latin letters, digits and `_` that does not begin with `__` or a digit. */
  readonly hasPlainColumns: boolean;
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

/** Keys of a table that are considered; somebody could make thousands of them. */
const maxUniques = 100;

/** Whether at most one row has given values in these columns: a unique key lies within them. */
const isUnique = (table: Table, columns: readonly string[]): boolean =>
  table.uniques.slice(0, maxUniques).some((key) => key.every((column) => columns.includes(column)));

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

/** A table has some hundreds at most, unless somebody repeats them; each request that embeds goes through them. */
const maxRelationships = 10_000;

/** A primary key has 32 columns at most: more foreign keys within one repeat each other. */
const maxJunctionKeys = 32;

/**
 * The foreign keys of a table that stands between others: a table whose primary key holds two foreign keys has a row for
 * each pair of their targets.
 */
const junctionKeys = (table: Table, foreignKeys: readonly ForeignKey[]): ReadonlySet<ForeignKey> => {
  const primary = new Set(table.primaryKey);
  const within = foreignKeys.filter(({ columns }) => columns.every((column) => primary.has(column)));
  return new Set(within.length <= maxJunctionKeys ? within : []);
};

/** Every way from a table to another, by foreign keys: there, back, and across tables that stand between. */
export type RelationshipsOfTable = (table: Table) => readonly Relationship[];

/**
 * Finds the relationships of tables, by foreign keys in the order of their tables and names. Their number is the
 * project's choice: what all tables have is not worked out for a request that needs one.
 */
export const relationshipsOf = (
  tables: ReadonlyMap<string, Table>,
  foreignKeys: readonly ForeignKey[],
): RelationshipsOfTable => {
  const held = Map.groupBy(foreignKeys, ({ table }) => table);
  const touching = new Map<string, ForeignKey[]>();
  for (const key of foreignKeys)
    for (const name of new Set([key.table, key.target])) {
      const present = touching.get(name);
      if (present) present.push(key);
      else touching.set(name, [key]);
    }
  const junctions = new Map<Table, ReadonlySet<ForeignKey>>();
  const junctionKeysOf = (table: Table): ReadonlySet<ForeignKey> => {
    const known = junctions.get(table) ?? junctionKeys(table, held.get(table.name) ?? []);
    junctions.set(table, known);
    return known;
  };
  const throughKey = (key: ForeignKey, table: Table): Relationship[] => {
    const keys = junctionKeysOf(table);
    if (!keys.has(key)) return [];
    return [...keys].filter((other) => other !== key).map((other) => throughOf(table, key, other));
  };
  const alongKey = (key: ForeignKey, name: string): Relationship[] => {
    const table = tables.get(key.table);
    if (table === undefined) return [];
    const [near, far] = directOf(key, table);
    const there = key.table === name ? [near] : [];
    return key.target === name ? [...there, far, ...throughKey(key, table)] : there;
  };
  return ({ name }) => {
    const found: Relationship[] = [];
    for (const key of touching.get(name) ?? []) {
      found.push(...alongKey(key, name));
      if (found.length >= maxRelationships) break;
    }
    return found;
  };
};
