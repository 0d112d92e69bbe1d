import type { ReadPlan } from '#domain/data-api/plan.ts';
import type { SqlBuilder } from './builder.ts';
import { keysOf } from './keys.ts';
import { quoteText } from './names.ts';

const quotedCsv = (text: string): string => `"${text.replaceAll('"', '""')}"`;

const headerCell = (key: string): string => (/[",\r\n]/.test(key) || key === '' ? quotedCsv(key) : key);

// Null is nothing and the empty text is `""`, as COPY writes them and reads them back.
const cellSql = (cell: string): string =>
  `case when ${cell} is null then '' when ${cell} = '' or ${cell} ~ E'[",\\r\\n]'` +
  ` then '"' || replace(${cell}, '"', '""') || '"' else ${cell} end`;

/**
 * `body text, n int` as RFC 4180, with a line of names first; lines end with a line feed, as PostgREST's do. Postgres' own
 * text of a row would double every backslash.
 * @param rows a SELECT of as many columns as the plan has keys
 */
export const csvSql = (plan: ReadPlan, rows: string, builder: SqlBuilder): string => {
  const keys = keysOf(plan);
  const [row, text] = [builder.alias(), builder.alias()];
  // By position: two columns may have one name.
  const names = keys.map((_, index) => `c${index}`);
  const texts = names.map((name) => `${row}.${name}::text as ${name}`);
  const line = names.map((name) => cellSql(`${text}.${name}`)).join(` || ',' || `);
  const header = quoteText(keys.map(headerCell).join(','));
  const body = `${header} || coalesce(E'\\n' || string_agg(${line || "''"}, E'\\n'), '')`;
  const source = `(select ${texts.join(', ')} from (${rows}) ${row}${keys.length === 0 ? '' : `(${names.join(', ')})`}) ${text}`;
  return `select ${body} as "body", count(*)::int as "n" from ${source}`;
};
