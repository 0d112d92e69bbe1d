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
  /** The type's own name without modifiers, an array's with `_` before it: `varchar`, `_int4`, `mood`. Of a domain, its base. */
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
