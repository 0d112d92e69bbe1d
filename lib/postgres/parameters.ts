// The type names that PostgreSQL has for json and jsonb.
const jsonTypes = new Set([114, 3802]);

const quoted = (text: string): string => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;

const elementOf = (value: unknown): string => {
  if (Array.isArray(value)) return arrayLiteral(value);
  const text = textOf(value);
  return text === null ? 'NULL' : quoted(text);
};

const arrayLiteral = (values: readonly unknown[]): string => `{${values.map(elementOf).join(',')}}`;

const textOf = (value: unknown): string | null => {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return arrayLiteral(value);
  // Booleans and numbers are written the same way in JSON and SQL.
  return JSON.stringify(value);
};

/** A parameter in the server's text form. */
export interface Parameter {
  readonly text: string | null;
  /** Values that the statement expects as something else than JSON: an array is an SQL array there. */
  readonly json: string | null;
}

/**
 * Objects are JSON, arrays are SQL arrays or JSON, everything else is text that the server reads as the type that it
 * expects.
 * @throws {RangeError} when values are nested deeper than can be written
 */
export const parametersOf = (values: readonly unknown[]): Parameter[] =>
  values.map((value) => ({ text: textOf(value), json: Array.isArray(value) ? JSON.stringify(value) : null }));

/** Whether only the statement knows what to send. */
export const needsTypes = (parameters: readonly Parameter[]): boolean => parameters.some(({ json }) => json !== null);

/** @param types of the statement's parameters, where they are asked for */
export const textsOf = (parameters: readonly Parameter[], types: readonly number[] = []): (string | null)[] =>
  parameters.map(({ text, json }, index) => (json !== null && jsonTypes.has(types[index] ?? 0) ? json : text));
