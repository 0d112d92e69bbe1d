import type { TestFn } from 'ava';
import { Client } from 'pg';
import type { Sql } from '#domain/data-api/data-api.ts';
import { type ParseOptions, parseQuery } from '#domain/data-api/rest/grammar/query.ts';
import { readPlan } from '#domain/data-api/rest/read-plan.ts';
import { type ReadOptions, readSql } from '#domain/data-api/sql/read.ts';
import { createEmptyDatabase } from '#test/support/databases.ts';
import { librarySchema, librarySql, libraryTable } from './library.ts';

export interface Library {
  /** Runs a statement and gives its rows as the server writes them. */
  readonly run: (sql: Sql) => Promise<Readonly<Record<string, string | null>>[]>;
  /** The rows that a query string asks of a table. */
  readonly get: (table: string, query: string, options?: ParseOptions) => Promise<unknown>;
  readonly text: (table: string, query: string, options?: Partial<ReadOptions> & ParseOptions) => Promise<string>;
}

export const readOf = (table: string, query: string, options: Partial<ReadOptions> & ParseOptions = {}): Sql =>
  readSql(readPlan(librarySchema, libraryTable(table), parseQuery(query, options), { maxLimit: 1000 }), {
    shape: 'array',
    exactCount: false,
    ...options,
  });

const textTypes = { getTypeParser: () => (value: string) => value };

/** A database of the library for all tests of a file, none of which writes. */
export const useLibrary = (test: TestFn): (() => Library) => {
  let client: Client | undefined;
  let drop: (() => Promise<void>) | undefined;
  test.serial.before('the library opens', async () => {
    const database = await createEmptyDatabase();
    drop = database.drop;
    client = new Client({ connectionString: database.url });
    await client.connect();
    await client.query(librarySql);
  });
  test.after.always('the library closes', async () => {
    await client?.end();
    await drop?.();
  });
  // The tests of a file run side by side, their statements one after the other.
  let last: Promise<unknown> = Promise.resolve();
  const query = async ({ text, params }: Sql): Promise<Record<string, string | null>[]> => {
    if (client === undefined) throw new Error('the library has not opened');
    const { rows } = await client.query({ text, values: [...params], types: textTypes });
    return rows as Record<string, string | null>[];
  };
  const run: Library['run'] = (sql) => {
    const rows = last.then(() => query(sql));
    last = rows.catch(() => undefined);
    return rows;
  };
  const text: Library['text'] = async (table, query, options) => {
    const [row] = await run(readOf(table, query, options));
    return row?.['body'] ?? 'no row';
  };
  const get: Library['get'] = async (table, query, options) => JSON.parse(await text(table, query, options));
  return () => ({ run, get, text });
};
