/*
 * The data API: REST and GraphQL on a project's tables, made from its schema. This file has what both dialects are
 * parsed into (plans of reads and writes) and the way into the database. The way through this folder: schema/schema.ts
 * (tables, columns, relationships; introspect.ts reads them, cache.ts keeps them), rest/rest.ts with
 * rest/grammar/query.ts, and graphql/graphql.ts make a plan of a request, sql/sql.ts and its neighbours write it as one
 * statement, postgres-db.ts runs it as the caller's role. errors.ts says what a caller sees of a failure, effort.ts
 * which statements wait for others.
 */
import type { Disconnection } from '#lib/disconnection.ts';
import type { Column, Relationship, Table } from './schema/schema.ts';

/** As which role a request works in a project's database (contract, sections 2 and 5). */
export type DataRole = 'service' | 'anon' | 'authenticated';

/** The caller of a project's database, and the request fields that its policies may read. */
export interface DataCaller {
  readonly projectId: string;
  readonly role: DataRole;
  /** JSON text for `request.jwt.claims`; `{"role":"anon"}` of a publishable key. */
  readonly claims: string;
  /** How long a statement may take, in ms. Left out: as long as the connection's own setting says, 30 s. */
  readonly timeoutMs?: number;
}

export interface DataRun {
  /** `read`: nothing can be written, whatever functions are called. */
  readonly mode: 'read' | 'write';
  /** The schema whose names SQL of the project finds first. Left out: public. */
  readonly schema?: string;
  /**
   * For `request.method`, `request.path` and `request.headers` (JSON) in SQL; asked only where SQL of the project runs.
   */
  readonly request?: { readonly method: string; readonly path: string; readonly headers: string };
  /** Aborted when no caller waits for the answer any more: the running statement is cancelled. */
  readonly signal: Disconnection;
}

/** One row of texts, as the server writes them: most statements of the data API answer exactly one. */
export type TextRow = readonly (string | null)[];

/** Runs one statement and answers its one row. */
export type RunOne = (sql: Sql) => Promise<TextRow>;

/** Runs one statement and answers all of its rows, of which there is at least one. */
export type RunRows = (sql: Sql) => Promise<readonly TextRow[]>;

/** The way of the data API into projects' databases. Every method throws `DatabaseError` as pg does. */
export interface DataDb {
  /** One statement, whole or not at all, in one round trip; a named prepared statement after the first time. */
  readonly one: (caller: DataCaller, run: DataRun, sql: Sql) => Promise<TextRow>;
  /** As `one`, for a statement whose answer comes in several rows. */
  readonly rows: (caller: DataCaller, run: DataRun, sql: Sql) => Promise<readonly TextRow[]>;
  /** Several in one transaction, rolled back when `work` throws. */
  readonly transaction: <T>(
    caller: DataCaller,
    run: DataRun,
    work: (one: RunOne, rows: RunRows) => Promise<T>,
  ) => Promise<T>;
}

/** The way of exports into projects' databases. */
export interface LinesDb {
  /**
   * The texts of a statement that answers one for each row, however many, as they are at its beginning, in pieces of
   * some 100 KB: the next are read when they are asked for. It holds a session until it has ended or is returned.
   */
  readonly lines: (caller: DataCaller, run: DataRun, request: LinesRequest) => AsyncGenerator<string, void>;
}

export interface LinesRequest {
  readonly sql: Sql;
  /** Stands between two texts of a piece. */
  readonly separator: string;
  /** The person who asks: one such reading of a project at a time. */
  readonly userId: string;
}

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
