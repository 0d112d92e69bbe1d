import { type ClientBase, DatabaseError, escapeIdentifier } from 'pg';
import type { FenceDb } from '../console/fence.ts';
import {
  type Relation,
  type TableDescription,
  describeTable,
  listRelations,
  nearestHint,
  readingTables,
} from './describe.ts';
import { ServiceError } from '#lib/errors.ts';
import { AnswerTooLarge } from '#lib/postgres/answer-too-large.ts';
import { runBound } from '#lib/postgres/bound-query.ts';

/** Interface, "table list entry". */
interface TableEntry {
  readonly name: string;
  /** How many. */
  readonly columns: number;
  /** Counted where that is cheap, else the server's estimate. */
  readonly rows: number;
}

// The size up to which rows are counted exactly in one request: 256 MB of tables, the small ones first, some 100 ms.
const countedPages = 32_768;
const listCountTimeoutMs = 1000;
const countLockMs = 300;
const tablesAtATime = 20;

const cheapOnes = (tables: readonly Relation[]): Relation[] => {
  let left = countedPages;
  return tables
    .filter(({ kind }) => kind !== 'foreign')
    .toSorted((a, b) => a.pages - b.pages)
    .filter(({ pages }) => {
      left -= pages;
      return left >= 0;
    });
};

const uncountable = new Set(['57014', '55P03', '42P01', '42501']);

/** The exact counts; null when one of the tables is locked, gone or slow. */
const countRows = async (
  client: ClientBase,
  tables: readonly Relation[],
  withinMs: number,
): Promise<number[] | null> => {
  const counts = tables.map(({ name }) => `(select count(*) from public.${escapeIdentifier(name)})`);
  const lockMs = Math.min(countLockMs, withinMs);
  await client.query(
    `savepoint counting; set local statement_timeout = ${withinMs}; set local lock_timeout = ${lockMs}`,
  );
  try {
    const { rows } = await client.query<{ counts: string[] }>(`select array[${counts.join(', ')}]::text[] as counts`);
    return (rows[0]?.counts ?? []).map(Number);
  } catch (error) {
    if (!(error instanceof DatabaseError) || !uncountable.has(error.code ?? '')) throw error;
    return null;
  } finally {
    await client.query('rollback to counting; release counting');
  }
};

/** Many at once, and one by one those of a lot that had a bad one in it. */
const exactCounts = async (client: ClientBase, tables: readonly Relation[]): Promise<ReadonlyMap<string, number>> => {
  const known = new Map<string, number>();
  const until = performance.now() + listCountTimeoutMs;
  const lots = Array.from({ length: Math.ceil(tables.length / tablesAtATime) }, (_, index) =>
    tables.slice(index * tablesAtATime, (index + 1) * tablesAtATime),
  );
  for (let lot = lots.shift(); lot !== undefined; lot = lots.shift()) {
    const withinMs = Math.floor(until - performance.now());
    if (withinMs <= 0) break;
    const counts = await countRows(client, lot, withinMs);
    for (const [index, { name }] of lot.entries()) {
      if (counts === null && lot.length > 1) lots.push(lot.slice(index, index + 1));
      else if (counts !== null) known.set(name, counts[index] ?? 0);
    }
  }
  return known;
};

/** A list is fast: it does not stop when its caller leaves. */
const never = new AbortController().signal;

/** The tables of schema `public`, by name; partitions count with theirs. */
export const listTables = (db: FenceDb, projectId: string): Promise<TableEntry[]> =>
  readingTables(db, { projectId, signal: never }, async (client) => {
    const relations = await listRelations(client);
    const tables = relations.filter(({ kind }) => kind !== 'view' && kind !== 'materialized');
    const exact = await exactCounts(client, cheapOnes(tables));
    return tables.map(({ name, columns, estimate }) => ({
      name,
      columns,
      rows: exact.get(name) ?? Math.max(0, Math.round(estimate)),
    }));
  });

interface RowsPage {
  readonly limit: number;
  readonly offset: number;
  /** `name.desc,"na,me"`; null: by primary key. */
  readonly order: string | null;
  /** How the rows of the whole table are counted; null: as is cheap. */
  readonly count: CountKind | 'none' | null;
}

interface RowsOf {
  readonly projectId: string;
  readonly table: string;
  /** Aborted when nobody waits any more. */
  readonly signal: AbortSignal;
}

type CountKind = 'exact' | 'estimated';

interface TableRows {
  /** A JSON array as text, as the server writes it: exact. */
  readonly text: string;
  /** Null: it was not asked for. */
  readonly total: { readonly rows: number; readonly kind: CountKind } | null;
}

const totalTimeoutMs = 2000;
/** By default, tables of more rows are not counted: every page of a large one would take as long as the count. */
const maxCounted = 100_000;

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

/** Counted; after 2 s the planner's estimate. */
const countOf = async (client: ClientBase, from: string): Promise<NonNullable<TableRows['total']>> => {
  await client.query(`savepoint counting; set local statement_timeout = ${totalTimeoutMs}`);
  try {
    const { rows } = await client.query<{ total: string }>(`select count(*)::text as total from ${from}`);
    return { rows: Number(rows[0]?.total), kind: 'exact' };
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.code !== '57014') throw error;
    await client.query('rollback to counting');
    return { rows: await estimate(client, from), kind: 'estimated' };
  }
};

const totalOf = async (client: ClientBase, name: string, page: RowsPage): Promise<TableRows['total']> => {
  const from = `public.${escapeIdentifier(name)}`;
  if (page.count === 'none') return null;
  if (page.count === 'exact') return countOf(client, from);
  const rows = await estimate(client, from);
  const isCounted = page.count === null && page.offset === 0 && rows <= maxCounted;
  return isCounted ? countOf(client, from) : { rows, kind: 'estimated' };
};

const readIn = async (client: ClientBase, table: string, page: RowsPage): Promise<TableRows> => {
  const { limit, offset, order } = page;
  const source = sourceOf(await describeTable(client, table), order);
  // A row at a time: one value of all rows would have to be whole in the server's memory first.
  const sql = `select row_to_json(r)::text from (select * from ${source} limit $1 offset $2) r`;
  const { rows } = await runBound(client, { sql, params: [limit, offset] });
  const text = `[${rows.map(([row]) => row ?? 'null').join(',')}]`;
  const isWhole = rows.length < limit && (rows.length > 0 || offset === 0);
  if (isWhole && page.count !== 'none') return { text, total: { rows: offset + rows.length, kind: 'exact' } };
  return { text, total: await totalOf(client, table, page) };
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
