import { cleanLine } from '../../text.ts';

const before = 30;
const after = 30;

/** A place in a text of SQL as a person reads it: its line, and below the line a caret. */
export interface Place {
  readonly line: number;
  readonly text: string;
}

/** @param position from 1, in characters as PostgreSQL counts them: one for each code point */
export const sqlPlace = (sql: string, position: number | null): Place | null => {
  if (position === null) return null;
  const characters = Array.from(sql);
  if (position < 1 || position > characters.length + 1) return null;
  const ahead = characters.slice(0, position - 1).join('');
  const line = ahead.split('\n').length;
  const whole = sql.split('\n')[line - 1] ?? '';
  const column = Array.from(ahead.split('\n').at(-1) ?? '').length;
  // A long line is cut around the place.
  const from = Math.max(0, column - before);
  const part = Array.from(whole)
    .slice(from, column + after)
    .join('');
  const shown = cleanLine(part);
  const caret = ' '.repeat(cleanLine(Array.from(whole).slice(from, column).join('')).length);
  return { line, text: `  ${shown}\n  ${caret}^` };
};
