import { parseExact, textOf } from './exact-json.ts';
import type { SchemaTable } from './schema.ts';

export type Row = Readonly<Record<string, unknown>>;
export type Column = SchemaTable['columns'][number];

/** The start of a value that is too long to be kept for every row in sight. The whole is read when it is needed. */
export class LongValue {
  readonly start: string;
  readonly length: number;

  constructor(text: string) {
    this.start = text.slice(0, maxKept);
    this.length = text.length;
  }
}

/** Characters of a value that are kept in memory; a cell shows 300 of them. */
const maxKept = 2000;

const shortened = (value: unknown): unknown => {
  if (typeof value === 'string') return value.length > maxKept ? new LongValue(value) : value;
  if (typeof value !== 'object' || value === null) return value;
  const text = textOf(value);
  return text.length > maxKept ? new LongValue(text) : value;
};

/** A row without what would fill the memory. */
export const shortRow = (row: Row): Row =>
  Object.fromEntries(Object.entries(row).map(([name, value]) => [name, shortened(value)]));

const isText = (type: string): boolean => /^(?:text|character|"char"|name|citext)/.test(type);
export const isJson = (type: string): boolean => type === 'json' || type === 'jsonb';

const trues = new Set(['t', 'true', 'yes', 'y', 'on', '1']);
const falses = new Set(['f', 'false', 'no', 'n', 'off', '0']);

const booleanOf = (text: string): unknown => {
  const word = text.trim().toLowerCase();
  if (trues.has(word)) return true;
  return falses.has(word) ? false : text;
};

/**
 * A typed or pasted text as the value of a column. An empty text is NULL where the type has no empty value. The server
 * reads everything but JSON from its text form.
 * @throws {SyntaxError} for text that is not JSON in a column of JSON
 */
export const valueOfText = (text: string, { type, nullable }: Pick<Column, 'type' | 'nullable'>): unknown => {
  if (text === '' && !isText(type) && nullable) return null;
  if (isJson(type)) return parseExact(text, true);
  return type === 'boolean' ? booleanOf(text) : text;
};

/** Whether a new row may leave the column out. */
export const hasDefault = ({ default: expression, generated }: Column): boolean =>
  expression !== null || generated !== null;

/** Columns that nobody may write. */
export const isGenerated = ({ generated }: Column): boolean => generated === 'stored' || generated === 'virtual';
