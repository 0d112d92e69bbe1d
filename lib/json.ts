// ECMAScript 2026; TypeScript's own libraries do not declare it yet.
const rawJson = Reflect.get(JSON, 'rawJSON') as (text: string) => unknown;

/**
 * Parses JSON and keeps numbers that JavaScript cannot hold (9007199254740995, 1e400) as they were written: they come
 * back out of `JSON.stringify` unchanged.
 * @throws {SyntaxError} as JSON.parse
 */
export const parseExactJson = (text: string): unknown =>
  JSON.parse(text, (_key, value: unknown, context?: { source?: string }) => {
    if (typeof value !== 'number' || context?.source === undefined) return value;
    return String(value) === context.source ? value : rawJson(context.source);
  });
