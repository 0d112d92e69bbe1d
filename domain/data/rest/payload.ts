import { DataError } from '../errors.ts';
import { csvToJson } from './csv.ts';

/** What a request wants written: JSON text as it came, because only the server may read its numbers. */
export interface Payload {
  /** An object, or an array of objects. */
  readonly json: string;
  readonly many: boolean;
  readonly rows: number;
  /** Every key of every object, in order of appearance. */
  readonly keys: readonly string[];
  /** Whether every object has all of them. */
  readonly uniform: boolean;
}

export const invalidBody = (message: string, status = 400): DataError => new DataError(status, 'PGRST102', message);

const mostNesting = 1000;
const decoder = new TextDecoder('utf-8', { fatal: true });

/** @throws {DataError} PGRST102 when it is not UTF-8 */
export const textOf = (bytes: Buffer): string => {
  try {
    return decoder.decode(bytes);
  } catch {
    throw invalidBody('The body is not valid UTF-8');
  }
};

/** The media type in lower case, without parameters; JSON where none is given. */
export const mediaTypeOf = (contentType: string): string =>
  contentType === '' ? 'application/json' : contentType.replace(/;.*/s, '').trim().toLowerCase();

const brackets: Readonly<Record<string, number>> = { '{': 1, '[': 1, '}': -1, ']': -1 };

// The server refuses what its stack cannot hold with an error that reads like a fault of ours.
const requireShallow = (json: string): void => {
  if (json.length < 2 * mostNesting) return;
  let depth = 0;
  for (const [token] of json.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}]/gs)) {
    depth += brackets[token] ?? 0;
    if (depth > mostNesting) throw invalidBody(`The body is nested deeper than ${mostNesting} levels`);
  }
};

/** @throws {DataError} PGRST102 */
export const parseJson = (json: string): unknown => {
  try {
    const value: unknown = JSON.parse(json);
    requireShallow(json);
    return value;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new DataError(400, 'PGRST102', 'Empty or invalid json', { details: error.message });
  }
};

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const jsonPayload = (json: string): Payload => {
  const value = parseJson(json);
  const objects: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (!objects.every(isObject)) throw invalidBody('The body must be an object or an array of objects');
  const keys = new Set<string>();
  for (const object of objects) for (const key of Object.keys(object)) keys.add(key);
  return {
    json,
    many: Array.isArray(value),
    rows: objects.length,
    keys: [...keys],
    uniform: objects.every((object) => Object.keys(object).length === keys.size),
  };
};

/** `a=1&b=2` as an object of texts; of a name that is given twice the last counts, as in JSON. */
export const formToJson = (text: string): { json: string; keys: readonly string[] } => {
  const values = new Map(new URLSearchParams(text));
  const parts = [...values].map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
  return { json: `{${parts.join(',')}}`, keys: [...values.keys()] };
};

const formPayload = (text: string): Payload => ({ ...formToJson(text), many: false, rows: 1, uniform: true });

const csvPayload = (text: string): Payload => ({ ...csvToJson(text), many: true, uniform: true });

const readers: Readonly<Record<string, (text: string) => Payload>> = {
  'application/json': jsonPayload,
  'application/vnd.pgrst.object': jsonPayload,
  'application/vnd.pgrst.object+json': jsonPayload,
  'application/vnd.pgrst.array': jsonPayload,
  'application/vnd.pgrst.array+json': jsonPayload,
  'application/x-www-form-urlencoded': formPayload,
  'text/csv': csvPayload,
};

export const notAcceptable = (mediaType: string): DataError =>
  invalidBody(`Content-Type not acceptable: ${mediaType.slice(0, 100)}`, 415);

/**
 * Reads what is to be written.
 * @throws {DataError} PGRST102: not of a media type that can be read (415), not JSON, not objects
 */
export const readPayload = (contentType: string, bytes: Buffer): Payload => {
  const mediaType = mediaTypeOf(contentType);
  const read = Object.hasOwn(readers, mediaType) ? readers[mediaType] : undefined;
  if (read === undefined) throw notAcceptable(mediaType);
  return read(textOf(bytes));
};
