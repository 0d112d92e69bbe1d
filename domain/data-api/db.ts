import type { Sql } from './plan.ts';
import type { Disconnection } from '#lib/disconnection.ts';

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
  /** For `request.method`, `request.path` and `request.headers` (JSON) in SQL; asked only where SQL of the project runs. */
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
