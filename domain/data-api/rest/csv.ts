import { DataError } from '#domain/data-api/errors.ts';

const bad = (message: string, status = 400): DataError => new DataError(status, 'PGRST102', message);

/** Each line repeats the names of the columns as JSON: a megabyte with one long name would become a hundred gigabytes. */
const maxJsonMib = 16;

interface Cell {
  readonly text: string;
  readonly quoted: boolean;
  /** Where the comma, the end of the line or the end of the text is. */
  readonly end: number;
}

const quotedCell = (text: string, start: number): Cell => {
  let value = '';
  let from = start + 1;
  for (;;) {
    const quote = text.indexOf('"', from);
    if (quote === -1) throw bad('The CSV has a quote that is not closed');
    value += text.slice(from, quote);
    if (text[quote + 1] !== '"') return { text: value, quoted: true, end: quote + 1 };
    value += '"';
    from = quote + 2;
  }
};

const plainCell = (text: string, start: number): Cell => {
  let end = start;
  while (end < text.length && text[end] !== ',' && text[end] !== '\n' && text[end] !== '\r') end += 1;
  return { text: text.slice(start, end), quoted: false, end };
};

const lineEnd = (text: string, at: number): number => {
  if (text[at] === '\r' && text[at + 1] === '\n') return at + 2;
  return text[at] === '\n' || text[at] === '\r' ? at + 1 : -1;
};

type Row = (string | null)[];

/** `NULL` without quotes is no value. */
const valueOf = ({ text, quoted }: Cell): string | null => (text === 'NULL' && !quoted ? null : text);

/** Rows of RFC 4180; lines that hold nothing at all are passed over. */
const rowsOf = (text: string): Row[] => {
  const rows: Row[] = [];
  let row: Row = [];
  let at = 0;
  while (at < text.length || row.length > 0) {
    const cell = text[at] === '"' ? quotedCell(text, at) : plainCell(text, at);
    row.push(valueOf(cell));
    at = cell.end;
    if (text[at] === ',') {
      at += 1;
      continue;
    }
    const next = lineEnd(text, at);
    if (next === -1 && at < text.length) throw bad('The CSV has text behind a closing quote');
    if (row.length > 1 || row[0] !== '' || cell.quoted) rows.push(row);
    row = [];
    at = next === -1 ? text.length : next;
  }
  return rows;
};

/** A CSV with a header, as the objects that it stands for: JSON text, and its keys. */
export const csvToJson = (text: string): { json: string; keys: readonly string[]; rows: number } => {
  const [header, ...rows] = rowsOf(text.replace(/^\uFEFF/, ''));
  if (header === undefined) throw bad('The CSV has no header');
  const names = header.map(String);
  if (new Set(names).size < names.length) throw bad('The CSV names a column twice');
  if (rows.some((row) => row.length !== names.length)) throw bad('All lines must have same number of fields');
  const keys = names.map((name) => `${JSON.stringify(name)}:`);
  const namesLength = keys.reduce((sum, { length }) => sum + length + 1, 2);
  if (rows.length * namesLength + text.length > maxJsonMib * 1024 * 1024)
    throw bad(`The CSV is more than ${maxJsonMib} MB as JSON: send fewer lines, or shorter names of columns`, 413);
  const objects = rows.map((row) => `{${row.map((value, i) => `${keys[i]}${JSON.stringify(value)}`).join(',')}}`);
  return { json: `[${objects.join(',')}]`, keys: names, rows: rows.length };
};
