// ECMAScript 2026; TypeScript's own libraries do not declare it yet.
const rawJson = Reflect.get(JSON, 'rawJSON') as (text: string) => unknown;

const exactly = (_key: string, value: unknown, context?: { source?: string }): unknown => {
  if (typeof value !== 'number' || context?.source === undefined) return value;
  return String(value) === context.source ? value : rawJson(context.source);
};

/**
 * Parses JSON and keeps numbers that JavaScript cannot hold (9007199254740995, 1e400) as they were written: they come
 * back out of `JSON.stringify` unchanged. Nested deeper than the stack reaches (some 2,000 levels), numbers are
 * JavaScript's: the reviver recurses, plain JSON.parse does not.
 * @throws {SyntaxError} as JSON.parse
 */
export const parseExactJson = (text: string): unknown => {
  try {
    return JSON.parse(text, exactly);
  } catch (error) {
    if (error instanceof RangeError) return JSON.parse(text);
    throw error;
  }
};
