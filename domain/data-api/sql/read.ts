import type { ReadPlan, Sql } from '../data-api.ts';
import { type SqlBuilder, keysOf, quoteText, createSqlBuilder, listSql } from './sql.ts';
import { type SelectOptions, matchingRows, selectRows } from './select.ts';

const quotedCsv = (text: string): string => `"${text.replaceAll('"', '""')}"`;

const headerCell = (key: string): string => (/[",\r\n]/.test(key) || key === '' ? quotedCsv(key) : key);

// Null is nothing and the empty text is `""`, as COPY writes them and reads them back.
const cellSql = (cell: string): string =>
  `case when ${cell} is null then '' when ${cell} = '' or ${cell} ~ E'[",\\r\\n]'` +
  ` then '"' || replace(${cell}, '"', '""') || '"' else ${cell} end`;

interface CsvLines {
  /** The line of names. */
  readonly header: string;
  /** An expression over the source: the line of one row, without an end. */
  readonly line: string;
  readonly source: string;
}

/**
 * Rows as lines of RFC 4180. Postgres' own text of a row would double every backslash.
 * @param rows a SELECT of as many columns as the plan has keys
 */
const csvLines = (plan: ReadPlan, rows: string, builder: SqlBuilder): CsvLines => {
  const keys = keysOf(plan);
  const [row, text] = [builder.alias(), builder.alias()];
  // By position: two columns may have one name.
  const names = keys.map((_, index) => `c${index}`);
  const texts = names.map((name) => `${row}.${name}::text as ${name}`);
  const line = names.map((name) => cellSql(`${text}.${name}`)).join(` || ',' || `);
  const source = `(select ${texts.join(', ')} from (${rows}) ${row}${keys.length === 0 ? '' : `(${names.join(', ')})`}) ${text}`;
  return { header: keys.map(headerCell).join(','), line: line || "''", source };
};

/** `body text, n int`, with the line of names first; lines end with a line feed, as PostgREST's do. */
const csvSql = (plan: ReadPlan, rows: string, builder: SqlBuilder): string => {
  const { header, line, source } = csvLines(plan, rows, builder);
  const body = `${quoteText(header)} || coalesce(E'\\n' || string_agg(${line}, E'\\n'), '')`;
  return `select ${body} as "body", count(*)::int as "n" from ${source}`;
};

/** The body of an answer: a list, one object, or lines of text. */
type Shape = 'array' | 'object' | 'csv';

/** The number of rows that were gathered in an array. */
const bodySql: Readonly<Record<'array' | 'object', (rows: string) => string>> = {
  array: (rows) => `coalesce(array_to_json(${rows})::text, '[]')`,
  object: (rows) => `coalesce(row_to_json(${rows}[1])::text, 'null')`,
};

/** The columns `body text, n int` over rows that are written as a SELECT. */
const bodyOf = (plan: ReadPlan, shape: Shape, options: SelectOptions): string => {
  const rows = selectRows(plan, { ...options, named: shape === 'csv' });
  if (shape === 'csv') return csvSql(plan, rows, options.builder);
  const [row, gathered] = [options.builder.alias(), options.builder.alias()];
  // Counted where they are gathered: an aggregate of its own costs a list of 25 rows a quarter of its time. The offset
  // keeps the server from gathering them for the body and for the count.
  const inner = `select array_agg(${row}.*) as "rows" from (${rows}) ${row} offset 0`;
  const body = bodySql[shape](`${gathered}."rows"`);
  return `select ${body} as "body", coalesce(cardinality(${gathered}."rows"), 0) as "n" from (${inner}) ${gathered}`;
};

/**
 * The plan's rows as one JSON value, a list (`[]` when there are none) or an object (null when there is none).
 * @returns a subquery in parentheses
 */
export const jsonRows = (plan: ReadPlan, builder: SqlBuilder, shape: 'array' | 'object'): string => {
  const rows = selectRows(shape === 'object' ? { ...plan, limit: 1 } : plan, { builder });
  const row = builder.alias();
  const json = shape === 'object' ? `row_to_json(${row}.*)` : listSql(row);
  return `(select ${json} from (${rows}) ${row})`;
};

/** How many rows fit the plan, whatever page it asks for; a subquery in parentheses. */
const countSql = (plan: ReadPlan, options: SelectOptions): string =>
  `(select count(*) from (${matchingRows(plan, options)}) ${options.builder.alias()})`;

export interface ReadOptions {
  readonly shape: Shape;
  /** Counts all rows that fit, not only those of the page. */
  readonly exactCount: boolean;
  /** See {@link SelectOptions}. */
  readonly from?: string;
}

/**
 * The end of a read: it returns one row `body text, n int, total bigint`. `n` is the number of rows in the body,
 * `total` the number that match, null when it was not requested. It may stand behind a WITH of the same builder.
 */
export const answerSql = (plan: ReadPlan, { shape, exactCount, from }: ReadOptions, builder: SqlBuilder): string => {
  const options: SelectOptions = { builder, ...(from !== undefined && { from }) };
  const body = bodyOf(plan, shape, options);
  const answer = builder.alias();
  const total = exactCount ? countSql(plan, options) : 'null::bigint';
  return `select ${answer}."body", ${answer}."n", ${total} as "total" from (${body}) ${answer}`;
};

/** The statement of a read; see {@link answerSql}. */
export const readSql = (plan: ReadPlan, options: ReadOptions): Sql => {
  const builder = createSqlBuilder();
  return builder.finish(answerSql(plan, options, builder));
};

/** The statement of a file of rows, and what stands around them. */
export interface LinesSql {
  /** Answers one text for each row, in order. */
  readonly sql: Sql;
  /** Stands before the first line, without its end. */
  readonly head: string;
  /** Stands between two lines. */
  readonly separator: string;
  readonly tail: string;
}

/** The plan's rows as lines of a file: a list of JSON with an object a line, or CSV with a line of names first. */
export const linesSql = (plan: ReadPlan, shape: 'array' | 'csv'): LinesSql => {
  const builder = createSqlBuilder();
  const rows = selectRows(plan, { builder, named: shape === 'csv' });
  if (shape === 'csv') {
    const { header, line, source } = csvLines(plan, rows, builder);
    const sql = builder.finish(`select ${line} as "line" from ${source}`);
    return { sql, head: header, separator: '\n', tail: '\n' };
  }
  const row = builder.alias();
  // A line feed within JSON is white space: those of texts are escaped.
  const line = `replace(row_to_json(${row}.*)::text, E'\\n', ' ')`;
  const sql = builder.finish(`select ${line} as "line" from (${rows}) ${row}`);
  return { sql, head: '[', separator: ',\n', tail: '\n]\n' };
};

/** Answers one row: the server's plan as JSON text, for {@link plannedRows}. Nothing is read. */
export const plannedCountSql = (plan: ReadPlan): Sql => {
  const builder = createSqlBuilder();
  return builder.finish(`explain (format json) ${matchingRows(plan, { builder })}`);
};

/** How many rows the server expects. */
export const plannedRows = (explained: string): number => {
  const parsed: unknown = JSON.parse(explained);
  const top: unknown = Array.isArray(parsed) ? Reflect.get(parsed[0] as object, 'Plan') : undefined;
  return typeof top === 'object' && top !== null ? Number(Reflect.get(top, 'Plan Rows')) : 0;
};
