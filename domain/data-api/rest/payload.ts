import { scanJson } from '#lib/json-scan.ts';
import { DataError } from '#domain/data-api/errors.ts';
import { csvToJson } from './csv.ts';

/** The payload of a write: JSON text as it came, because only the server may read its numbers. */
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

const maxNesting = 1000;
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

/**
 * 20,000 rows of six columns. The most that a megabyte can hold (350,000 empty objects) blocked the event loop for 0.3
 * s.
 */
const maxParts = 250_000;

// The server refuses what its stack cannot hold with an error that reads like a fault of ours.
const requireSane = (json: string): void => {
  if (json.length < 2 * maxNesting) return;
  const { verdict } = scanJson(Buffer.from(json), { maxParts, maxDepth: maxNesting });
  if (verdict === 'too_deep') throw invalidBody(`The body is nested deeper than ${maxNesting} levels`);
  if (verdict === 'too_many') throw invalidBody(`The body holds more than ${maxParts} values: send fewer rows`, 413);
};

/** @throws {DataError} PGRST102, also (413) when it holds more values than can be read without keeping others waiting */
export const parseJson = (
  json: string,
  parse: (json: string) => unknown = (text) => JSON.parse(text) as unknown,
): unknown => {
  requireSane(json);
  try {
    return parse(json);
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
const formToJson = (text: string): { json: string; keys: readonly string[] } => {
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

const notAcceptable = (mediaType: string): DataError =>
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

const wholeBodies: Readonly<Record<string, string>> = {
  'text/plain': 'text',
  'text/xml': 'xml',
  'application/xml': 'xml',
  'application/octet-stream': 'bytea',
};

/** The type of the one argument that the whole body stands for, by its media type. */
export const wholeBodyType = (mediaType: string): string | undefined =>
  Object.hasOwn(wholeBodies, mediaType) ? wholeBodies[mediaType] : undefined;

/** The arguments of a function, as JSON text that came as it is, and their names. */
export interface NamedArguments {
  readonly json: string;
  readonly names: readonly string[];
}

const jsonTypes = new Set(['application/json', 'application/vnd.pgrst.object', 'application/vnd.pgrst.object+json']);

/**
 * Reads what a function is called with by the names of its parameters.
 * @throws {DataError} PGRST102: not of a media type that can be read (415), not JSON
 */
export const readArguments = (contentType: string, bytes: Buffer): NamedArguments => {
  const mediaType = mediaTypeOf(contentType);
  if (mediaType === 'application/x-www-form-urlencoded') {
    const { json, keys } = formToJson(textOf(bytes));
    return { json, names: keys };
  }
  if (!jsonTypes.has(mediaType)) throw notAcceptable(mediaType);
  const json = bytes.length === 0 ? '{}' : textOf(bytes);
  const value = parseJson(json);
  return { json, names: isObject(value) ? Object.keys(value) : [] };
};
