import type { EventRow } from './types.ts';

/** What a delivery tells of an event, as the JSON text that it was written as: numbers stay exact. */
export interface EventParts {
  readonly data: string;
  /** The row before an update; null: there is none. */
  readonly old: string | null;
}

const [quote, backslash, open, close] = [0x22, 0x5c, 0x7b, 0x7d];

/** Past the quote that ends the string that begins at `at`. */
const afterString = (text: string, at: number): number => {
  let end = text.indexOf('"', at + 1);
  const isEscaped = (): boolean => {
    let before = end - 1;
    while (text.charCodeAt(before) === backslash) before -= 1;
    return (end - before) % 2 === 0;
  };
  while (end > 0 && isEscaped()) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end + 1;
};

/** Past the object that begins at `at`. Not by a regular expression: strings of megabytes outgrow its stack. */
const afterObject = (text: string, at: number): number => {
  let depth = 0;
  let place = at;
  while (place < text.length) {
    const code = text.charCodeAt(place);
    if (code === quote) {
      place = afterString(text, place);
      continue;
    }
    place += 1;
    if (code === open) depth += 1;
    if (code === close) depth -= 1;
    if (depth === 0) return place;
  }
  return place;
};

const rowStart = '{"row":';
const oldStart = ',"old":';

/**
 * Writes to tables are kept as `{"row":…,"old":…}` (domain/events/outbox.ts), and the row is what is told. Cut here and not
 * by the server, whose operators on json refuse \u0000.
 */
export const partsOf = ({ event, data }: Pick<EventRow, 'event' | 'data'>): EventParts => {
  if (!event.startsWith('table.') || !data.startsWith(rowStart)) return { data, old: null };
  // Of TRUNCATE.
  if (data === `${rowStart}null}`) return { data: 'null', old: null };
  const end = afterObject(data, rowStart.length);
  const row = data.slice(rowStart.length, end);
  return { data: row, old: data.startsWith(oldStart, end) ? data.slice(end + oldStart.length, -1) : null };
};
