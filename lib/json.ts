// ECMAScript 2026; TypeScript's own libraries do not declare it yet.
const rawJson = Reflect.get(JSON, 'rawJSON') as (text: string) => unknown;

/**
 * Whether a text may have a number that does not come back out of JavaScript as it was written. Integers of up to 15
 * digits do; a match within a string costs time only.
 */
const mayBeInexact = /\d{16}|\d[.eE]|-0/;

/** A text has more values than its caller is ready to look at one by one. */
export class TooManyValues extends Error {}

const reviverOf = (maxValues: number) => {
  let values = 0;
  return (_key: string, value: unknown, context?: { source?: string }): unknown => {
    values += 1;
    if (values > maxValues) throw new TooManyValues(`more than ${maxValues} values`);
    if (typeof value !== 'number' || context?.source === undefined) return value;
    return String(value) === context.source ? value : rawJson(context.source);
  };
};

/**
 * Parses JSON and keeps numbers that JavaScript cannot hold (9007199254740995, 1e400) as they were written: they come
 * back out of `JSON.stringify` unchanged. Nested deeper than the stack reaches (some 2,000 levels), numbers are
 * JavaScript's: the reviver recurses, plain JSON.parse does not.
 * @param maxValues in a text with numbers that may have to be kept: each costs up to 0.8 µs
 * @throws {SyntaxError} as JSON.parse
 * @throws {TooManyValues}
 */
export const parseExactJson = (text: string, maxValues = Number.POSITIVE_INFINITY): unknown => {
  if (!mayBeInexact.test(text)) return JSON.parse(text);
  try {
    return JSON.parse(text, reviverOf(maxValues));
  } catch (error) {
    if (error instanceof RangeError) return JSON.parse(text);
    throw error;
  }
};
