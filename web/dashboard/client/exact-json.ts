/**
 * Numbers that JavaScript cannot hold stay as they were written: a bigint of the database would be shown, and written
 * back, with other digits.
 */
class ExactNumber {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }

  /** As `JSON.stringify` writes it. */
  toJSON(): unknown {
    return (JSON as unknown as { rawJSON: (text: string) => unknown }).rawJSON(this.text);
  }
}

/** A value of JSON as a person reads it: texts as they are, everything else as JSON. */
export const textOf = (value: unknown, indent = 0): string => {
  if (typeof value === 'string') return value;
  return value instanceof ExactNumber ? value.text : JSON.stringify(value, null, indent);
};

const isExact = (value: number, source: string): boolean =>
  String(value) === source || (Number.isFinite(value) && Math.abs(value) < 1e15 && !/\d{16}/.test(source));

/**
 * As `JSON.parse`; a number that would change is an `ExactNumber`.
 * @param asWritten also one that would only be written in another way: `1.10`
 */
export const parseExact = (text: string, asWritten = false): unknown =>
  JSON.parse(text, ((_key: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' &&
    context?.source !== undefined &&
    (asWritten ? String(value) !== context.source : !isExact(value, context.source))
      ? new ExactNumber(context.source)
      : value) as (key: string, value: unknown) => unknown);
