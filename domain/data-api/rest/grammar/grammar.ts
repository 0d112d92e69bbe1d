import type { Aggregate, ComparisonOperator, PathStep } from '../../data-api.ts';
import { DataError } from '../../errors.ts';

/** The parsed query string, before any name is looked up in a schema. */
export interface ParsedQuery {
  /** `select=`; one star when it is absent or empty. */
  readonly select: readonly SelectItem[];
  /** Every filter and every `and=`/`or=`; all of them have to hold. */
  readonly where: readonly At<ConditionAst>[];
  readonly order: readonly At<readonly OrderAst[]>[];
  readonly limit: readonly At<number>[];
  readonly offset: readonly At<number>[];
  /** `columns=`, of a write. */
  readonly columns: readonly string[] | null;
  /** `on_conflict=`, of an upsert. */
  readonly onConflict: readonly string[] | null;
  /** The parameters of a call that are no filters (`arguments: true`), as they came. */
  readonly args: readonly (readonly [name: string, value: string])[];
}

/** Something that is said of the rows asked for (`path` empty) or of related ones (`author.name=eq.x`). */
export interface At<T> {
  readonly path: readonly string[];
  readonly what: T;
}

export interface FieldAst {
  readonly name: string;
  readonly path: readonly PathStep[];
}

export type SelectItem =
  | { readonly kind: 'all' }
  | {
      readonly kind: 'field';
      readonly alias: string | null;
      /** Null: `count()`. */
      readonly field: FieldAst | null;
      readonly cast: string | null;
      readonly aggregate: Aggregate | null;
      readonly aggregateCast: string | null;
    }
  | RelationAst;

export interface RelationAst {
  readonly kind: 'relation';
  readonly alias: string | null;
  readonly name: string;
  readonly hint: string | null;
  readonly inner: boolean;
  readonly spread: boolean;
  readonly items: readonly SelectItem[];
}

export type TestAst =
  | {
      readonly kind: 'compare';
      readonly operator: ComparisonOperator;
      readonly quantifier: 'any' | 'all' | null;
      readonly operand: string;
    }
  | { readonly kind: 'in'; readonly operands: readonly string[] }
  | { readonly kind: 'is'; readonly what: 'null' | 'not_null' | 'true' | 'false' | 'unknown' }
  | {
      readonly kind: 'search';
      readonly how: 'fts' | 'plfts' | 'phfts' | 'wfts';
      readonly language: string | null;
      readonly operand: string;
    };

export type ConditionAst =
  | { readonly kind: 'filter'; readonly field: FieldAst; readonly negated: boolean; readonly test: TestAst }
  | {
      readonly kind: 'logic';
      readonly operator: 'and' | 'or';
      readonly negated: boolean;
      readonly parts: readonly ConditionAst[];
    };

export interface OrderAst {
  /** The related row whose field it is: `order=author(name)`. */
  readonly relation: string | null;
  readonly field: FieldAst;
  readonly direction: 'asc' | 'desc' | null;
  readonly nulls: 'first' | 'last' | null;
}

/** A place in a text that is being read. The functions here move it forward or throw; nothing goes back by itself. */
export interface Cursor {
  readonly text: string;
  /** The name of the text in messages: `select parameter`. */
  readonly subject: string;
  at: number;
  /**
   * The position from which no quote is closed any more: searched once, so that a list of open quotes is read in linear
   * time.
   */
  unclosedFrom: number;
}

export const cursorOf = (subject: string, text: string): Cursor => ({
  text,
  subject,
  at: 0,
  unclosedFrom: Number.POSITIVE_INFINITY,
});

// A message repeats its subject, but not 100 KB of it.
const shown = (text: string): string => (text.length > 1000 ? `${text.slice(0, 1000)}…` : text);

const characterAt = ({ text, at }: Cursor): string => {
  const code = text.codePointAt(at);
  return code === undefined ? 'end of input' : JSON.stringify(String.fromCodePoint(code));
};

/** Returns the error for an unexpected character at `cursor`, in PostgREST's words. */
export const fail = (cursor: Cursor, expecting: string): never => {
  const { text, subject, at } = cursor;
  // In characters, as people count them.
  const column = Array.from(text.slice(0, at)).length + 1;
  const message = `"failed to parse ${subject} (${shown(text)})" (line 1, column ${column})`;
  throw new DataError(400, 'PGRST100', message, {
    details: `unexpected ${characterAt(cursor)} expecting ${expecting}`,
  });
};

/** More than a request may ask for. */
export const refuse = ({ text, subject }: Cursor, reason: string): never => {
  throw new DataError(400, 'PGRST100', `"failed to parse ${subject} (${shown(text)})"`, { details: reason });
};

export const isAtEnd = ({ text, at }: Cursor): boolean => at >= text.length;

export const sees = ({ text, at }: Cursor, expected: string): boolean => text.startsWith(expected, at);

/** Steps over `expected` if it is there. */
export const take = (cursor: Cursor, expected: string): boolean => {
  if (!sees(cursor, expected)) return false;
  cursor.at += expected.length;
  return true;
};

/** @throws {DataError} PGRST100 when `expected` is not there */
export const need = (cursor: Cursor, expected: string): void => {
  if (!take(cursor, expected)) fail(cursor, JSON.stringify(expected));
};

/** @param otherwise what else could have followed */
export const requireEnd = (cursor: Cursor, otherwise = ''): void => {
  if (!isAtEnd(cursor)) fail(cursor, `${otherwise}${otherwise && ' or '}end of input`);
};

/**
 * Steps over what a sticky expression finds.
 * @param form has the flag `y`
 */
export const takeForm = (cursor: Cursor, form: RegExp): string | null => {
  form.lastIndex = cursor.at;
  const [found] = form.exec(cursor.text) ?? [];
  if (found === undefined) return null;
  cursor.at += found.length;
  return found;
};

export const skipSpace = (cursor: Cursor): void => {
  while (cursor.text[cursor.at] === ' ' || cursor.text[cursor.at] === '\t') cursor.at += 1;
};

/** Where the quote that opens at `at` is closed; -1 if nowhere. */
const closingQuote = (cursor: Cursor): number => {
  const { text, at, unclosedFrom } = cursor;
  if (at >= unclosedFrom) return -1;
  let end = at + 1;
  while (end < text.length && text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
  if (end < text.length) return end;
  cursor.unclosedFrom = at;
  return -1;
};

/** `"…"` with `\` before what is meant as it is; null, and nothing is read, where none is closed. */
export const takeQuoted = (cursor: Cursor): string | null => {
  if (!sees(cursor, '"')) return null;
  const end = closingQuote(cursor);
  if (end < 0) return null;
  const inner = cursor.text.slice(cursor.at + 1, end);
  cursor.at = end + 1;
  return inner.includes('\\') ? inner.replaceAll(/\\(.)/gsu, '$1') : inner;
};

export type Pair = readonly [name: string, value: string];

const decoded = (text: string): string => {
  if (!text.includes('%') && !text.includes('+')) return text;
  // A percent sign that begins no escape is itself, as for browsers: `like.%x%` is often written by hand.
  const escaped = text.replaceAll('+', ' ').replaceAll(/%(?![0-9a-f]{2})/gi, '%25');
  try {
    return decodeURIComponent(escaped);
  } catch {
    throw new DataError(400, 'PGRST100', 'The query string is not UTF-8.', {
      details: 'Characters beyond ASCII are percent-encoded as the bytes of their UTF-8.',
    });
  }
};

/** The parameters of a query string in their order, a repeated one each time. */
export const pairsOf = (queryText: string): Pair[] =>
  queryText
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const at = part.indexOf('=');
      return at < 0 ? [decoded(part), ''] : [decoded(part.slice(0, at)), decoded(part.slice(at + 1))];
    });

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
