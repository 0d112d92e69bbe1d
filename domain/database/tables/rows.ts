import { type ClientBase, DatabaseError, escapeIdentifier } from 'pg';
import { ServiceError } from '#lib/errors.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { runBound } from '#lib/postgres/bound-query.ts';
import { type TableDescription, describeTable } from './describe.ts';
import type { FenceDb } from '../console/fence.ts';
import { nearestHint } from './nearest-hint.ts';
import { readingTables } from './reading.ts';

export interface RowsPage {
  readonly limit: number;
  readonly offset: number;
  /** `name.desc,"na,me"`; null: by primary key. */
  readonly order: string | null;
}

export interface RowsOf {
  readonly projectId: string;
  readonly table: string;
  /** Aborted when no caller waits any more. */
  readonly signal: AbortSignal;
}

export interface TableRows {
  /** A JSON array as text, as the server writes it: exact. */
  readonly text: string;
  /** Counted, or after 2 s the planner's estimate. */
  readonly total: number;
}

const countTimeoutMs = 2000;

const invalidOrder = (message: string, hint?: string): ServiceError =>
  new ServiceError('validation_failed', 'The query is not valid.', {
    details: [{ path: 'order', message }],
    ...(hint !== undefined && { hint }),
  });

const termForm = /(?:"((?:[^"]|"")*)"|([^,"]+?))(?:\.(asc|desc))?(?:,|$)/y;

/** `order` as SQL. A name with a comma or a quote in it is written in double quotes. @throws {ServiceError} */
const orderSql = (order: string, names: readonly string[]): string => {
  const terms: string[] = [];
  termForm.lastIndex = 0;
  while (termForm.lastIndex < order.length) {
    const [, quoted, bare = '', direction = 'asc'] = termForm.exec(order) ?? invalidTerm();
    const name = quoted?.replaceAll('""', '"') ?? bare;
    if (!names.includes(name)) {
      throw invalidOrder(`names a column that is not there: ${JSON.stringify(name)}`, nearestHint(name, names).hint);
    }
    terms.push(`${escapeIdentifier(name)} ${direction}`);
  }
  return terms.join(', ');
};

const invalidTerm = (): never => {
  throw invalidOrder('must be columns separated by commas, each with .asc or .desc or neither');
};

const sourceOf = ({ name, columns, primary_key: key }: TableDescription, order: string | null): string => {
  const names = columns.map((column) => column.name);
  const by = order === null ? key.map((column) => escapeIdentifier(column)).join(', ') : orderSql(order, names);
  return `public.${escapeIdentifier(name)}${by === '' ? '' : ` order by ${by}`}`;
};

interface Plan {
  readonly 'QUERY PLAN': readonly { readonly Plan: { readonly 'Plan Rows': number } }[];
}

const estimate = async (client: ClientBase, from: string): Promise<number> => {
  const { rows } = await client.query<Plan>(`explain (format json) select from ${from}`);
  return Math.round(rows[0]?.['QUERY PLAN'][0]?.Plan['Plan Rows'] ?? 0);
};

const totalOf = async (client: ClientBase, name: string): Promise<number> => {
  const from = `public.${escapeIdentifier(name)}`;
  await client.query(`savepoint counting; set local statement_timeout = ${countTimeoutMs}`);
  try {
    const { rows } = await client.query<{ total: string }>(`select count(*)::text as total from ${from}`);
    return Number(rows[0]?.total);
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.code !== '57014') throw error;
    await client.query('rollback to counting');
    return await estimate(client, from);
  }
};

const readIn = async (client: ClientBase, table: string, { limit, offset, order }: RowsPage): Promise<TableRows> => {
  const source = sourceOf(await describeTable(client, table), order);
  // A row at a time: one value of all rows would have to be whole in the server's memory first.
  const sql = `select row_to_json(r)::text from (select * from ${source} limit $1 offset $2) r`;
  const { rows } = await runBound(client, { sql, params: [limit, offset] });
  const text = `[${rows.map(([row]) => row ?? 'null').join(',')}]`;
  const isWhole = rows.length < limit && (rows.length > 0 || offset === 0);
  return { text, total: isWhole ? offset + rows.length : await totalOf(client, table) };
};

const tooLarge = (error: unknown): unknown =>
  error instanceof AnswerTooLarge
    ? new ServiceError('payload_too_large', 'These rows are more than 16 MB.', { hint: 'Ask for fewer by limit.' })
    : error;

/**
 * A page of the rows of a table or view, those included that row-level security hides from the project's users.
 * @throws {ServiceError} `not_found`, `validation_failed`, `payload_too_large`
 * @throws {DataError} with the SQLSTATE as code
 */
export const listRows = async (db: FenceDb, of: RowsOf, page: RowsPage): Promise<TableRows> => {
  try {
    return await readingTables(db, of, (client) => readIn(client, of.table, page));
  } catch (error) {
    throw tooLarge(error);
  }
};
