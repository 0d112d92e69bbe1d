import { DataError } from '#domain/data-api/errors.ts';

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

/** The text format of COPY. */
const valueOf = (text: string): string | null => {
  if (text === String.raw`\N`) return null;
  if (!text.includes('\\')) return text;
  return text.replaceAll(/\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|[\s\S])/g, (_whole, code: string) => {
    if (/^x./.test(code)) return String.fromCodePoint(Number.parseInt(code.slice(1), 16));
    if (/^[0-7]/.test(code)) return String.fromCodePoint(Number.parseInt(code, 8) & 0xff);
    return escapes[code] ?? code;
  });
};

const refused = (message: string, hint: string): DataError => new DataError(400, '0A000', message, { hint });

export interface CopiedRows {
  /** The table and its columns, as the script names them. */
  readonly target: string;
  readonly rows: readonly (readonly (string | null)[])[];
}

/** @throws {DataError} for another format than text, and for rows of different lengths */
export const readCopied = (sql: string, text: string): CopiedRows => {
  const { target, options } = partsOf(sql);
  if (options !== '') {
    throw refused('Only the text format of COPY FROM stdin is possible here.', 'Leave its options out.');
  }
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  const rows = lines.map((line) => line.split('\t').map(valueOf));
  const odd = rows.findIndex((row) => row.length !== rows[0]?.length);
  if (odd !== -1) {
    throw new DataError(
      400,
      '22P04',
      `Row ${odd + 1} of the copied data has ${rows[odd]?.length ?? 0} values, the first has ${rows[0]?.length ?? 0}.`,
    );
  }
  return { target, rows };
};

const maxParameters = 65_535;
const maxRows = 1000;

/** The statements that insert the rows, and their parameters. */
export const insertsOf = function* ({
  target,
  rows,
}: CopiedRows): Generator<{ sql: string; values: (string | null)[] }> {
  const width = rows[0]?.length ?? 0;
  const each = Math.min(maxRows, Math.floor(maxParameters / Math.max(1, width)));
  for (let from = 0; from < rows.length; from += each) {
    const part = rows.slice(from, from + each);
    const tuples = part.map(
      (_row, index) => `(${Array.from({ length: width }, (_, i) => `$${index * width + i + 1}`).join(',')})`,
    );
    // COPY writes the values of identity columns as they are given.
    yield { sql: `insert into ${target} overriding system value values ${tuples.join(',')}`, values: part.flat() };
  }
};
