import { DataError } from '#domain/data-api/errors.ts';
import { createPause } from '#lib/in-turns.ts';

/**
 * `COPY … FROM stdin` with the lines that follow it, as pg_dump and psql write them, becomes INSERT: the connection is
 * the platform's, and nothing of a script may be sent over it but statements.
 */

const word = /^copy\b/i;
const source = /\bfrom\s+stdin\b/i;

/**
 * The text between `COPY` and `FROM stdin`, and what follows; empty where the statement is none of that kind. Found by
 * two expressions: one for the whole would try each space of a long run as the beginning of its rest.
 */
const partsOf = (sql: string): { readonly target: string; readonly options: string } => {
  const [copy] = word.exec(sql) ?? [];
  const from = copy === undefined ? null : source.exec(sql);
  if (copy === undefined || from === null) return { target: '', options: '' };
  return {
    target: sql.slice(copy.length, from.index).trim(),
    options: sql.slice(from.index + from[0].length).trim(),
  };
};

/** Whether lines of data may follow a statement. */
export const isCopyFromStdin = (sql: string): boolean => partsOf(sql).target !== '';

const escapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };

/** Whole escapes and other characters, up to 4,096 of them: a long value is read in parts. */
const parts = /(?:[^\\]|\\(?:x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|[\s\S]|$)){1,4096}/g;

const unescaped = (part: string): string =>
  part.replaceAll(/\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|[\s\S])/g, (_whole, code: string) => {
    if (/^x./.test(code)) return String.fromCodePoint(Number.parseInt(code.slice(1), 16));
    if (/^[0-7]/.test(code)) return String.fromCodePoint(Number.parseInt(code, 8) & 0xff);
    return escapes[code] ?? code;
  });

type Pause = () => Promise<void>;

/** The text format of COPY. */
const valueOf = async (text: string, pause: Pause): Promise<string | null> => {
  if (text === String.raw`\N`) return null;
  if (!text.includes('\\')) return text;
  const read: string[] = [];
  for (const [part] of text.matchAll(parts)) {
    read.push(unescaped(part));
    await pause();
  }
  return read.join('');
};

const refused = (message: string, hint: string): DataError => new DataError(400, '0A000', message, { hint });

type Row = readonly (string | null)[];

export interface CopiedRows {
  /** The table and its columns, as the script names them. */
  readonly target: string;
  readonly rows: readonly Row[];
}

/** One line after the other: all of 26 million that a script may have took 2 GB. */
const linesOf = function* (text: string): Generator<string> {
  for (let at = 0; at < text.length;) {
    const found = text.indexOf('\n', at);
    const end = found === -1 ? text.length : found;
    yield text.slice(at, found > at && text[found - 1] === '\r' ? found - 1 : end);
    at = end + 1;
  }
};

/** The columns that PostgreSQL allows a table. */
const maxColumns = 1600;

const rowOf = async (line: string, pause: Pause): Promise<Row> => {
  const values = line.split('\t', maxColumns + 1);
  if (!line.includes('\\')) return values;
  const row: (string | null)[] = [];
  for (const value of values) row.push(await valueOf(value, pause));
  return row;
};

const oddRow = (number: number, { length }: Row, width: number): DataError => {
  const message =
    length > maxColumns
      ? `Row ${number} of the copied data has more than ${maxColumns} values, and no table has as many columns.`
      : `Row ${number} of the copied data has ${length} values, the first has ${width}.`;
  return new DataError(400, '22P04', message);
};

const maxParameters = 65_535;
const maxRows = 1000;
/** In characters. */
const maxTextLength = 1024 * 1024;

/** The rows that one statement inserts. */
const rowsAtOnce = (width: number): number => Math.min(maxRows, Math.floor(maxParameters / Math.max(1, width)));

/**
 * Reads the rows, as many at a time as one statement inserts.
 * @throws {DataError} for another format than text, and for rows of different lengths
 */
export const readCopied = async function* (sql: string, text: string): AsyncGenerator<CopiedRows> {
  const { target, options } = partsOf(sql);
  if (options !== '') {
    throw refused('Only the text format of COPY FROM stdin is possible here.', 'Leave its options out.');
  }
  const pause = createPause();
  let rows: Row[] = [];
  let [width, count, length] = [0, 0, 0];
  for (const line of linesOf(text)) {
    const row = await rowOf(line, pause);
    count += 1;
    if (count === 1) width = row.length;
    if (row.length !== width || width > maxColumns) throw oddRow(count, row, width);
    rows.push(row);
    length += line.length;
    if (rows.length < rowsAtOnce(width) && length < maxTextLength) continue;
    yield { target, rows };
    [rows, length] = [[], 0];
  }
  if (rows.length > 0) yield { target, rows };
};

/** The statements that insert the rows, and their parameters. */
export const insertsOf = function* ({
  target,
  rows,
}: CopiedRows): Generator<{ sql: string; values: (string | null)[] }> {
  const width = rows[0]?.length ?? 0;
  const each = rowsAtOnce(width);
  for (let from = 0; from < rows.length; from += each) {
    const part = rows.slice(from, from + each);
    const tuples = part.map(
      (_row, index) => `(${Array.from({ length: width }, (_, i) => `$${index * width + i + 1}`).join(',')})`,
    );
    // COPY writes the values of identity columns as they are given.
    yield { sql: `insert into ${target} overriding system value values ${tuples.join(',')}`, values: part.flat() };
  }
};
