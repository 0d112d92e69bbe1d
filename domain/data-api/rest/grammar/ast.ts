import type { Aggregate, ComparisonOperator, PathStep } from '#domain/data-api/plan.ts';

/** The parsed query string, before any name is looked up in a schema. */
export interface ParsedQuery {
  /** `select=`; one star when it is absent or empty. */
  readonly select: readonly SelectItem[];
  /** Every filter and every `and=`/`or=`; all of them have to hold. */
  readonly where: readonly At<ConditionAst>[];
  readonly order: readonly At<readonly OrderAst[]>[];
  readonly limit: readonly At<number>[];
  readonly offset: readonly At<number>[];
  /** `columns=`, of a write. */
  readonly columns: readonly string[] | null;
  /** `on_conflict=`, of an upsert. */
  readonly onConflict: readonly string[] | null;
  /** The parameters of a call that are no filters (`arguments: true`), as they came. */
  readonly args: readonly (readonly [name: string, value: string])[];
}

/** Something that is said of the rows asked for (`path` empty) or of related ones (`author.name=eq.x`). */
export interface At<T> {
  readonly path: readonly string[];
  readonly what: T;
}

export interface FieldAst {
  readonly name: string;
  readonly path: readonly PathStep[];
}

export type SelectItem =
  | { readonly kind: 'all' }
  | {
      readonly kind: 'field';
      readonly alias: string | null;
      /** Null: `count()`. */
      readonly field: FieldAst | null;
      readonly cast: string | null;
      readonly aggregate: Aggregate | null;
      readonly aggregateCast: string | null;
    }
  | RelationAst;

export interface RelationAst {
  readonly kind: 'relation';
  readonly alias: string | null;
  readonly name: string;
  readonly hint: string | null;
  readonly inner: boolean;
  readonly spread: boolean;
  readonly items: readonly SelectItem[];
}

export type TestAst =
  | {
      readonly kind: 'compare';
      readonly operator: ComparisonOperator;
      readonly quantifier: 'any' | 'all' | null;
      readonly operand: string;
    }
  | { readonly kind: 'in'; readonly operands: readonly string[] }
  | { readonly kind: 'is'; readonly what: 'null' | 'not_null' | 'true' | 'false' | 'unknown' }
  | {
      readonly kind: 'search';
      readonly how: 'fts' | 'plfts' | 'phfts' | 'wfts';
      readonly language: string | null;
      readonly operand: string;
    };

export type ConditionAst =
  | { readonly kind: 'filter'; readonly field: FieldAst; readonly negated: boolean; readonly test: TestAst }
  | {
      readonly kind: 'logic';
      readonly operator: 'and' | 'or';
      readonly negated: boolean;
      readonly parts: readonly ConditionAst[];
    };

export interface OrderAst {
  /** The related row whose field it is: `order=author(name)`. */
  readonly relation: string | null;
  readonly field: FieldAst;
  readonly direction: 'asc' | 'desc' | null;
  readonly nulls: 'first' | 'last' | null;
}
