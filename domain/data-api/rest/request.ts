import type { AnswerBody } from '#domain/data-api/answer-body.ts';
import type { DataCaller, RunOne, RunRows } from '#domain/data-api/db.ts';
import type { DataSchema } from '#domain/data-api/schema/types.ts';
import type { ReadBody } from './body-reading.ts';
import type { ParsedQuery } from './grammar/ast.ts';
import type { Form } from './media.ts';
import type { Preferences } from './prefer.ts';

/** The meaning of a path of the REST surface. */
export type Target =
  | { readonly kind: 'root' }
  | { readonly kind: 'table'; readonly table: string }
  /** One row by its primary key; the values of a key of several columns are joined by commas. */
  | { readonly kind: 'row'; readonly table: string; readonly id: string }
  | { readonly kind: 'function'; readonly name: string };

/** How the prefixes differ under which the surface is served. */
export interface Dialect {
  /** `column=value` without an operator is equality. */
  readonly bareEquality: boolean;
  /** A POST that says nothing about it is answered with what it created. */
  readonly returnsCreated: boolean;
  /** Up to where the names of tables begin, for `Location`. */
  readonly root: string;
}

/** A request in the REST dialect, from the wire or out of a batch. */
export interface RestRequest {
  readonly method: string;
  readonly path: string;
  readonly target: Target;
  /** The text after the `?`, undecoded. */
  readonly queryText: string;
  /** Empty when there is none of that name. */
  readonly header: (name: string) => string;
  readonly body: Buffer;
  /** The part of a large body that a thread has read. */
  readonly read?: ReadBody;
}

export interface RestAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Empty where there is no body. */
  readonly type: string;
  readonly body: AnswerBody;
}

/** Where the statements of one request run. */
export interface Executor {
  /** The operations within a transaction that has started, and that can write. */
  readonly isShared: boolean;
  /** Nothing is written in mode `read`, but for within a batch, which is one transaction. */
  readonly one: (mode: 'read' | 'write', sql: Parameters<RunOne>[0]) => ReturnType<RunOne>;
  /** As `one`, for a statement whose answer comes in several rows. */
  readonly rows: (mode: 'read' | 'write', sql: Parameters<RunRows>[0]) => ReturnType<RunRows>;
  /** Several, whole or not at all. */
  readonly atomically: <T>(mode: 'read' | 'write', work: (one: RunOne, rows: RunRows) => Promise<T>) => Promise<T>;
}

/** The dependencies of the parts that answer a request. */
export interface Work {
  readonly request: RestRequest;
  readonly dialect: Dialect;
  readonly schema: DataSchema;
  readonly caller: DataCaller;
  readonly preferences: Preferences;
  readonly form: Form;
  readonly executor: Executor;
  /** The query string, read but not yet held against the schema. */
  readonly query: ParsedQuery;
}

/** Largest and default page of a list (contract, section 5). */
export const maxRows = 1000;

/** Only those that say something. */
export const headersOf = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''));
