import { DataError } from '#domain/data-api/errors.ts';

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
