import { parseDelimited } from './delimited.ts';
import { parseExact, textOf } from './exact-json.ts';

/** Rows of a file, before they are in a table. Null is NULL. */
export interface FileRows {
  readonly names: readonly string[];
  readonly rows: readonly (readonly (string | null)[])[];
}

/** A script of 50 MB is the most that the API takes, and JSON makes it longer. */
export const maxFileBytes = 40 * 1024 * 1024;

const fromDelimited = (text: string, separator: ',' | '\t' | ';'): FileRows => {
  const [head = [], ...rest] = parseDelimited(text, separator);
  const names = head.map((cell) => cell.text.trim());
  const rows = rest.filter((row) => row.length > 1 || row[0]?.text !== '' || names.length === 1);
  return {
    names,
    rows: rows.map((row) =>
      names.map((_, index) => {
        const cell = row[index];
        return cell === undefined || (cell.text === '' && !cell.isQuoted) ? null : cell.text;
      }),
    ),
  };
};

const cellOf = (value: unknown): string | null => (value === null || value === undefined ? null : textOf(value));

const fromJson = (text: string): FileRows => {
  const value = parseExact(text, true);
  if (!Array.isArray(value) || value.some((row) => typeof row !== 'object' || row === null || Array.isArray(row)))
    throw new Error('The file must be a JSON array of objects.');
  const objects = value as readonly Readonly<Record<string, unknown>>[];
  const names = [...new Set(objects.flatMap((row) => Object.keys(row)))];
  return { names, rows: objects.map((row) => names.map((name) => cellOf(row[name]))) };
};

/** The separator that the first line has most of. */
const separatorOf = (text: string): ',' | '\t' | ';' => {
  const line = text.slice(0, 10_000).split('\n', 1)[0] ?? '';
  const counts = ([',', '\t', ';'] as const).map((one) => [line.split(one).length, one] as const);
  return counts.toSorted(([a], [b]) => b - a)[0]?.[1] ?? ',';
};

/** @throws {Error} in words that a person understands */
export const readRows = (name: string, text: string): FileRows => {
  const read = /^\s*[[{]/.test(text) || /\.json$/i.test(name) ? fromJson(text) : fromDelimited(text, separatorOf(text));
  if (read.names.length === 0 || read.names.some((one) => one === ''))
    throw new Error('The first line of the file must name its columns.');
  if (new Set(read.names).size < read.names.length) throw new Error('The file names a column twice.');
  if (read.rows.length === 0) throw new Error('The file has no rows.');
  return read;
};

const forms: readonly (readonly [RegExp, string])[] = [
  [/^(?:true|false|t|f)$/i, 'boolean'],
  [/^-?\d{1,18}$/, 'bigint'],
  [/^-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i, 'numeric'],
  [/^\d{4}-\d\d-\d\d$/, 'date'],
  [/^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?$/, 'timestamptz'],
  [/^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i, 'uuid'],
  [/^\s*[[{][\s\S]*[\]}]\s*$/, 'jsonb'],
];

/** Leading zeros are part of a code, and not of a number. */
const isCode = (text: string): boolean => /^-?0\d/.test(text);

/** The narrowest type that every value of a column has. */
export const typeOfValues = (values: readonly (string | null)[]): string => {
  const given = values.filter((value) => value !== null);
  if (given.length === 0 || given.some(isCode)) return 'text';
  return forms.find(([form]) => given.every((value) => form.test(value)))?.[1] ?? 'text';
};

const quotedName = (name: string): string => `"${name.replaceAll('"', '""')}"`;

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };

const copyCell = (value: string | null): string =>
  value === null ? '\\N' : value.replaceAll(/[\\\t\n\r]/g, (char) => escapes[char] ?? char);

/** A script that puts columns of the file into columns of a table: all rows, or none. */
export const importScript = (
  table: string,
  { rows, names }: FileRows,
  targets: readonly (string | null)[],
  created: readonly string[] | null,
): string => {
  const used = names.map((_, index) => index).filter((index) => (targets[index] ?? null) !== null);
  const columns = used.map((index) => quotedName(targets[index] ?? '')).join(', ');
  const at = `public.${quotedName(table)}`;
  const create =
    created === null
      ? ''
      : `create table ${at} (\n${used.map((index) => `  ${quotedName(targets[index] ?? '')} ${created[index]}`).join(',\n')}\n);\n`;
  const lines = rows.map((row) => used.map((index) => copyCell(row[index] ?? null)).join('\t'));
  return `${create}copy ${at} (${columns}) from stdin;\n${lines.join('\n')}\n\\.\n`;
};
