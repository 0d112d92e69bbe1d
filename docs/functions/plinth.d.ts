/**
 * Types for authors of functions. Point TypeScript at this file and write
 *
 *     import type { Handler } from 'plinth/functions';
 *
 * or, in JavaScript, a comment in front of the handler:
 *
 *     /** @type {import('plinth/functions').Handler} *\/
 *
 * The import is of types only: nothing of it is left in the function that runs. The globals (`fetch`, `crypto`, `URL`,
 * `console`, …) are those of the web platform: set `"lib": ["ESNext", "DOM", "DOM.Iterable"]`;
 * `Buffer` and `process.env` are there too, their types come with `@types/node`.
 */
declare module 'plinth/functions' {
  /** A JSON value. */
  export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json | undefined };

  /**
   * A row as the database answers it; `bigint` beyond 2^53, `numeric`, dates and times are text, so that they stay
   * exact.
   */
  // oxlint-disable-next-line typescript/no-explicit-any -- what a row holds is known to whoever wrote the query
  export type Row = Record<string, any>;

  /** A value for a parameter or a column. Dates become their ISO text, bytes become `bytea`. */
  export type Value =
    | Json
    | Date
    | bigint
    | ArrayBuffer
    | ArrayBufferView
    | undefined
    | { readonly [key: string]: unknown };

  /** Names of tables may carry their schema: `billing.invoices`. They and names of columns are quoted for you. */
  export interface Queries {
    /** Runs one statement with `$1`, `$2`, … and answers its rows: at most 10,000 rows or 16 MB. */
    query<T extends Row = Row>(sql: string, params?: readonly Value[]): Promise<T[]>;
    /** The first row, or null. */
    queryOne<T extends Row = Row>(sql: string, params?: readonly Value[]): Promise<T | null>;
    /** Inserts one row and answers it as it was stored. */
    insert<T extends Row = Row>(table: string, row: Record<string, Value>): Promise<T>;
    /** Inserts rows, all or none, and answers them. */
    insert<T extends Row = Row>(table: string, rows: readonly Record<string, Value>[]): Promise<T[]>;
    /** The rows that `where` (SQL text, `$n` out of `params`) holds for; all rows without it. */
    select<T extends Row = Row>(table: string, where?: string | null, params?: readonly Value[]): Promise<T[]>;
    /** Changes the rows that `where` holds for and answers how many there were. */
    update(table: string, changes: Record<string, Value>, where: string, params?: readonly Value[]): Promise<number>;
    /** Deletes the rows that `where` holds for and answers how many there were. */
    remove(table: string, where: string, params?: readonly Value[]): Promise<number>;
  }

  export interface Database extends Queries {
    /**
     * Runs `work` in a transaction: what it does through `tx` is kept when it resolves and undone when it throws.
     * At most four are open at a time in one run, those that are ending among them.
     */
    transaction<T>(work: (tx: Queries & { readonly jobs: Jobs }) => T | Promise<T>): Promise<T>;
  }

  /** After which ends a run is tried again, and how often; docs/functions/jobs.md. */
  export interface RetryPolicy {
    readonly max_attempts: number;
    readonly backoff?: 'exponential' | 'fixed';
    readonly base_ms?: number;
    readonly max_ms?: number;
    readonly on?: readonly ('error' | 'timeout' | 'crashed')[];
  }

  export interface JobOptions {
    readonly delay_ms?: number;
    /** ISO 8601; in place of `delay_ms`. */
    readonly run_at?: string;
    /** 0 to 9; 9 goes first. */
    readonly priority?: number;
    /** The first job with it wins; of a function with `debounce_ms` the last payload does. */
    readonly unique_key?: string;
    readonly unique_for_ms?: number;
    readonly concurrency_key?: string;
    readonly concurrency?: number;
    readonly expires_in_ms?: number;
    readonly retry?: RetryPolicy | null;
  }

  export interface EnqueuedJob {
    readonly job_id: string;
    /** `duplicate`: an earlier job has the unique key, and this is its id. Of a function with `debounce_ms` it has the new payload. */
    readonly status: 'queued' | 'duplicate';
  }

  /** Jobs that run functions of the project; those of `tx.jobs` exist only if the transaction commits. */
  export interface Jobs {
    enqueue(slug: string, payload?: Json, options?: JobOptions): Promise<EnqueuedJob>;
    /** At most 1,000, all of them or none. */
    enqueueMany(slug: string, jobs: readonly (JobOptions & { readonly payload?: Json })[]): Promise<EnqueuedJob[]>;
  }

  /** An event as a step receives it. */
  export interface ReceivedEvent {
    readonly id: string;
    readonly event: string;
    readonly project_id: string;
    readonly timestamp: string;
    // oxlint-disable-next-line typescript/no-explicit-any -- what an event holds is known to whoever emits it
    readonly data: any;
    /** The row before an update. */
    // oxlint-disable-next-line typescript/no-explicit-any -- as above
    readonly old?: any;
  }

  /** Durable steps: the run goes on at the first one without a result, whatever happens; docs/functions/steps.md. */
  export interface Steps {
    /** Does the work once, and answers what JSON makes of its result. Equal names are numbered. */
    run<T>(name: string, work: () => T | Promise<T>): Promise<T>;
    /** At most 365 days. The run holds no place meanwhile. */
    sleep(ms: number): Promise<null>;
    sleepUntil(time: Date | string | number): Promise<null>;
    /** The first event that the filter takes, or null after so many ms (7 days when it is left out). */
    waitForEvent(
      name: string,
      options?: { readonly filter?: string; readonly timeout?: number },
    ): Promise<ReceivedEvent | null>;
    /** Several at the same time. */
    all<T extends readonly unknown[] | []>(promises: T): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }>;
  }

  /** An error of the database; thrown by every method of `db`. */
  export interface DatabaseError extends Error {
    readonly name: 'DatabaseError';
    /** SQLSTATE, `23505` for a duplicate for instance. */
    readonly code?: string;
    readonly detail?: string;
    readonly hint?: string;
    /** Where in the SQL, counted from 1. */
    readonly position?: string;
    readonly constraint?: string;
    readonly schema?: string;
    readonly table?: string;
    readonly column?: string;
  }

  /** Where a file is; left out: in the bucket that the project began with, which has its slug for a name. */
  export interface InBucket {
    readonly bucket?: string;
  }

  /** A failure of `storage`: `code` is one of docs/storage.md. */
  export interface StorageError extends Error {
    readonly name: 'StorageError';
    readonly code: string;
  }

  export interface StorageEntry {
    readonly name: string;
    /** Null: a folder. */
    readonly id: string | null;
    readonly created_at: string | null;
    readonly updated_at: string | null;
    readonly metadata: { readonly size: number; readonly mimetype: string } | null;
  }

  /** The files of the project, as a secret key reaches them: no policy binds a function. */
  export interface Storage {
    /** Streams are sent as they are read. */
    upload(
      path: string,
      body: string | ArrayBuffer | ArrayBufferView | Blob | ReadableStream | AsyncIterable<Uint8Array>,
      options?: InBucket & { contentType?: string; cacheControl?: string; upsert?: boolean },
    ): Promise<{ id: string; path: string; bucket: string }>;
    /** A response whose body comes as it is read. */
    download(path: string, options?: InBucket): Promise<Response>;
    /** The folders and files of one folder. */
    list(
      prefix?: string,
      options?: InBucket & { limit?: number; offset?: number; search?: string },
    ): Promise<StorageEntry[]>;
    /** Answers the paths that were deleted. */
    remove(paths: string | readonly string[], options?: InBucket): Promise<string[]>;
    /** An address that opens the file to everybody for so many seconds; left out: an hour. */
    signedUrl(path: string, expiresIn?: number, options?: InBucket): Promise<string>;
  }

  /** The verified claims of a user's token. */
  export interface User {
    readonly sub: string;
    readonly [claim: string]: Json | undefined;
  }

  /** Feature flags, evaluated beside the function: known ones cost no request. */
  export interface Flags {
    /**
     * The value of a flag for a context. The default where there is no such flag, it is off or cannot be known, or its
     * value is of another type. The claims of the user who calls are part of the context, `targetingKey` is `sub`.
     */
    get<T extends Json>(
      key: string,
      context: { readonly targetingKey?: string; readonly [attribute: string]: Json | undefined },
      fallback: T,
      options?: { readonly environment?: string },
    ): Promise<T>;
    get<T extends boolean | number | string>(key: string, fallback: T): Promise<T>;
  }

  /** The HTTP request that led to the run. */
  export interface IncomingRequest {
    /** In capitals. */
    readonly method: string;
    /** The part of the path below the function's slug, undecoded; `/` when there is none. */
    readonly path: string;
    /** The whole address, at the project's `rest_url`. */
    readonly url: string;
    readonly query: URLSearchParams;
    /** Without the headers that hold credentials of the platform. */
    readonly headers: Headers;
    /** The client's address. */
    readonly ip: string;
    /** The body, byte by byte as it came. */
    readonly rawBody: Uint8Array<ArrayBuffer>;
    /** Aborted when the client leaves before it has the whole of a streamed answer. */
    readonly signal: AbortSignal;
    // oxlint-disable-next-line typescript/no-explicit-any -- what a body holds is known to whoever sends it
    json(): Promise<any>;
    text(): Promise<string>;
    formData(): Promise<FormData>;
  }

  export interface Sdk {
    /** The project's own database, **as its owner**: no policy holds here, whoever calls. */
    readonly db: Database;
    /**
     * Writes a line with fields into the log: an object of at most 8 KB of JSON. Fields with the names of secrets
     * (`password`, `token`, `authorization`, …) are kept without their values.
     */
    readonly log: (
      level: 'debug' | 'info' | 'warn' | 'error',
      message: string,
      fields?: Readonly<Record<string, unknown>>,
    ) => void;
    readonly jobs: Jobs;
    /** Events of the project's own: `emit('order.paid', order)`; docs/functions/triggers.md. */
    readonly events: { emit(name: string, data?: Json): Promise<void> };
    readonly step: Steps;
    /** Which attempt of its job the run is, 1 for the first. */
    readonly attempt: number;
    readonly flags: Flags;
    /** The files of the project. */
    readonly storage: Storage;
    /**
     * The same database with the caller's role and claims, so that policies hold: `anon` for publishable keys and
     * public calls, `authenticated` for users; for secret keys, members, schedules and events the service role. It takes
     * SELECT, INSERT, UPDATE, DELETE and MERGE, and no SQL that would change the role or the claims.
     */
    readonly asCaller: { readonly db: Database };
    /** Null when no HTTP request at the function's own address led to the run. */
    readonly request: IncomingRequest | null;
    /** The function's environment variables, the same as `process.env`; cannot be written. */
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly projectId: string;
    /**
     * The caller. `user` holds the verified claims of a user's token (`sub`, `email`, …), `kind` is then `user`; else
     * `secret` or `publishable` for the kind of the API key, `public` for a call without one, or `dashboard`, `cron`,
     * `event`, `job`.
     */
    readonly caller: {
      readonly kind: 'user' | 'secret' | 'publishable' | 'public' | 'dashboard' | 'cron' | 'event' | 'job';
      readonly key_id: string | null;
      readonly user: User | null;
    };
    /** The same as `caller.user`: null when no user of the application calls. */
    readonly user: User | null;
    /**
     * Keeps the run going after its answer, until the promise is settled, within the function's time-out. A promise that
     * is rejected makes the run an error; its caller has the answer already.
     */
    waitUntil(work: Promise<unknown>): void;
  }

  /** The function that the module exports under the name of its entry point, `handler` by default. */
  // oxlint-disable-next-line typescript/no-explicit-any -- what the payload is, too
  export type Handler<Payload = any, Result = unknown> = (payload: Payload, sdk: Sdk) => Result | Promise<Result>;

  /** The other form: `export default { fetch }`, as Workers have it. */
  export interface FetchHandler {
    fetch(request: Request, env: Sdk['env'], sdk: Sdk): Response | Promise<Response>;
  }
}
