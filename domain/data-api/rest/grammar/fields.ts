import type { PathStep } from '#domain/data-api/plan.ts';
import type { FieldAst } from './ast.ts';
import { type Cursor, fail, isAtEnd, refuse, sees, take, takeForm, takeQuoted } from './cursor.ts';

const plainName = /[\p{L}\p{M}\p{N}_$ ]+(?:-(?!>)[\p{L}\p{M}\p{N}_$ ]+)*/uy;
const indexForm = /-?\d+/y;
const typeForm = /[\p{L}\p{N}_$ ]+(?:\[\])?/uy;
const nameWanted = 'field name (* or [a..z0..9_$])';

/** The name that is at the cursor; null, and nothing is read, if none is. */
const takeName = (cursor: Cursor): string | null => {
  const quoted = takeQuoted(cursor);
  if (quoted !== null) return quoted;
  const start = cursor.at;
  const name = takeForm(cursor, plainName)?.trim();
  if (name !== undefined && name !== '') return name;
  cursor.at = start;
  return null;
};

export const readName = (cursor: Cursor): string => takeName(cursor) ?? fail(cursor, nameWanted);

const endsIndex = (cursor: Cursor): boolean =>
  isAtEnd(cursor) || ['->', '::', '.', ',', ')', ' '].some((mark) => sees(cursor, mark));

// The server's indexes are of 32 bits; what is longer can only be a key.
const isIndex = (digits: string): boolean => Math.abs(Number(digits)) < 2 ** 31;

const readKey = (cursor: Cursor): string | number => {
  const start = cursor.at;
  const digits = takeForm(cursor, indexForm);
  if (digits !== null && endsIndex(cursor)) return isIndex(digits) ? Number(digits) : digits;
  if (digits?.startsWith('-') === true) fail(cursor, 'digit, "->", "::", ".", "," or end of input');
  cursor.at = start;
  return readName(cursor);
};

// Each is a call within a call; the server's stack ends at some thousands.
const maxSteps = 64;

const readPath = (cursor: Cursor): PathStep[] => {
  const path: PathStep[] = [];
  for (;;) {
    const text = take(cursor, '->>');
    if (!text && !take(cursor, '->')) return path;
    if (path.length === maxSteps) refuse(cursor, `a path into JSON can have at most ${maxSteps} steps`);
    path.push({ text, key: readKey(cursor) });
  }
};

/** The characters after a field's name, up to the end of its path. */
export const readRestOfField = (cursor: Cursor, name: string): FieldAst => ({ name, path: readPath(cursor) });

export const readField = (cursor: Cursor): FieldAst => readRestOfField(cursor, readName(cursor));

/** `::type`, or null. */
export const takeCast = (cursor: Cursor): string | null => {
  if (!take(cursor, '::')) return null;
  const type = takeForm(cursor, typeForm)?.trim();
  return type === undefined || type === '' ? fail(cursor, 'letter or digit') : type;
};
