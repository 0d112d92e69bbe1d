import type { Column, Relationship, Table } from './schema/types.ts';

/**
 * A request to a project's tables, independent of its dialect: REST and GraphQL are both parsed into it, and `sql/`
 * writes it as SQL. Names are resolved: every table, column and relationship is one of the schema.
 */
export interface ReadPlan {
  readonly table: Table;
  readonly fields: readonly Field[];
  readonly where: Condition | null;
  readonly order: readonly OrderTerm[];
  readonly limit: number | null;
  readonly offset: number;
}

/** One key of the objects that come back, or several. */
export type Field =
  /** Every column under its own name. */
  | { readonly kind: 'all' }
  | { readonly kind: 'value'; readonly as: string; readonly value: Value }
  /** A constant, e.g. `__typename`. */
  | { readonly kind: 'literal'; readonly as: string; readonly text: string }
  | RelationField;

export interface RelationField {
  readonly kind: 'relation';
  readonly as: string;
  readonly relationship: Relationship;
  readonly plan: ReadPlan;
  /** Rows without a related one are left out. */
  readonly inner: boolean;
  /** The related row's fields stand among the outer ones (`...author(name)`). */
  readonly spread: boolean;
}

export type Aggregate = 'count' | 'sum' | 'avg' | 'min' | 'max';

/** A column, a path into its JSON, a cast, an aggregate over it. */
export interface Value {
  /** Null: `count()` of rows. */
  readonly column: Column | null;
  readonly path: readonly PathStep[];
  /** The name of a type, of the schema or the server; checked to be a name and nothing else. */
  readonly cast?: string;
  readonly aggregate?: Aggregate;
  /** Applied after the aggregate. */
  readonly aggregateCast?: string;
}

/** `->` or `->>` (text) and a key or an index. */
export interface PathStep {
  readonly text: boolean;
  readonly key: string | number;
}

export type Condition =
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Condition[] }
  | { readonly kind: 'not'; readonly part: Condition }
  | {
      readonly kind: 'compare';
      readonly value: Value;
      readonly operator: ComparisonOperator;
      readonly operand: string;
      /** `eq(any).{a,b}`: the operand is an array literal. */
      readonly quantifier?: 'any' | 'all';
    }
  | { readonly kind: 'in'; readonly value: Value; readonly operands: readonly string[] }
  | { readonly kind: 'is'; readonly value: Value; readonly what: 'null' | 'not_null' | 'true' | 'false' | 'unknown' }
  | {
      readonly kind: 'search';
      readonly value: Value;
      readonly how: 'fts' | 'plfts' | 'phfts' | 'wfts';
      readonly language: string | null;
      readonly operand: string;
    }
  /** A related row exists that fits. */
  | {
      readonly kind: 'related';
      readonly relationship: Relationship;
      readonly table: Table;
      readonly where: Condition | null;
    };

/** PostgREST's names; each is one operator of the server (`sql/operators.ts`). */
export type ComparisonOperator =
  | 'eq'
  | 'neq'
  | 'gt'
  | 'gte'
  | 'lt'
  | 'lte'
  | 'like'
  | 'ilike'
  | 'match'
  | 'imatch'
  | 'cs'
  | 'cd'
  | 'ov'
  | 'sl'
  | 'sr'
  | 'nxr'
  | 'nxl'
  | 'adj'
  | 'isdistinct';

export interface OrderTerm {
  readonly value: Value;
  /** Ordered by a column of a to-one related row. */
  readonly through?: Relationship;
  readonly throughTable?: Table;
  readonly direction: 'asc' | 'desc' | null;
  readonly nulls: 'first' | 'last' | null;
}

/** SQL and what is bound to its `$1`, `$2`, …, in the server's text form. */
export interface Sql {
  readonly text: string;
  readonly params: readonly (string | null)[];
}
