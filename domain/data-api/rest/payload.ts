import { DataError } from '../errors.ts';
import { scanJson } from '#lib/json-scan.ts';
import type { RestRequest, Target } from './request.ts';

const bad = (message: string, status = 400): DataError => new DataError(status, 'PGRST102', message);

/**
 * Each line repeats the names of the columns as JSON: a megabyte with one long name would become a hundred gigabytes.
 */
const maxJsonMib = 16;

interface Cell {
  readonly text: string;
  readonly quoted: boolean;
  /** Where the comma, the end of the line or the end of the text is. */
  readonly end: number;
}

const quotedCell = (text: string, start: number): Cell => {
  let value = '';
  let from = start + 1;
  for (;;) {
    const quote = text.indexOf('"', from);
    if (quote === -1) throw bad('The CSV has a quote that is not closed');
    value += text.slice(from, quote);
    if (text[quote + 1] !== '"') return { text: value, quoted: true, end: quote + 1 };
    value += '"';
    from = quote + 2;
  }
};

const plainCell = (text: string, start: number): Cell => {
  let end = start;
  while (end < text.length && text[end] !== ',' && text[end] !== '\n' && text[end] !== '\r') end += 1;
  return { text: text.slice(start, end), quoted: false, end };
};

const lineEnd = (text: string, at: number): number => {
  if (text[at] === '\r' && text[at + 1] === '\n') return at + 2;
  return text[at] === '\n' || text[at] === '\r' ? at + 1 : -1;
};

type Row = (string | null)[];

/** `NULL` without quotes is no value. */
const cellValue = ({ text, quoted }: Cell): string | null => (text === 'NULL' && !quoted ? null : text);

/** Rows of RFC 4180; lines that hold nothing at all are passed over. */
const rowsOf = (text: string): Row[] => {
  const rows: Row[] = [];
  let row: Row = [];
  let at = 0;
  while (at < text.length || row.length > 0) {
    const cell = text[at] === '"' ? quotedCell(text, at) : plainCell(text, at);
    row.push(cellValue(cell));
    at = cell.end;
    if (text[at] === ',') {
      at += 1;
      continue;
    }
    const next = lineEnd(text, at);
    if (next === -1 && at < text.length) throw bad('The CSV has text behind a closing quote');
    if (row.length > 1 || row[0] !== '' || cell.quoted) rows.push(row);
    row = [];
    at = next === -1 ? text.length : next;
  }
  return rows;
};

/** A CSV with a header, as the objects that it stands for: JSON text, and its keys. */
const csvToJson = (text: string): { json: string; keys: readonly string[]; rows: number } => {
  const [header, ...rows] = rowsOf(text.replace(/^\uFEFF/, ''));
  if (header === undefined) throw bad('The CSV has no header');
  const names = header.map(String);
  if (new Set(names).size < names.length) throw bad('The CSV names a column twice');
  if (rows.some((row) => row.length !== names.length)) throw bad('All lines must have same number of fields');
  const keys = names.map((name) => `${JSON.stringify(name)}:`);
  const namesLength = keys.reduce((sum, { length }) => sum + length + 1, 2);
  if (rows.length * namesLength + text.length > maxJsonMib * 1024 * 1024)
    throw bad(`The CSV is more than ${maxJsonMib} MB as JSON: send fewer lines, or shorter names of columns`, 413);
  const objects = rows.map((row) => `{${row.map((value, i) => `${keys[i]}${JSON.stringify(value)}`).join(',')}}`);
  return { json: `[${objects.join(',')}]`, keys: names, rows: rows.length };
};

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

/**
 * @throws {DataError} PGRST102, also (413) when it holds more values than can be read without keeping others waiting
 */
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

/** The result of a function, or its refusal: a DataError does not keep its class between threads. */
export type Outcome<T> =
  | { readonly value: T }
  | { readonly refusal: Pick<DataError, 'status' | 'code' | 'message' | 'details' | 'hint'> };

/** @throws what is no refusal */
export const outcomeOf = <T>(make: () => T): Outcome<T> => {
  try {
    return { value: make() };
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    const { status, code, message, details, hint } = error;
    return { refusal: { status, code, message, details, hint } };
  }
};

/** @throws {DataError} the refusal */
export const valueOf = <T>(outcome: Outcome<T>): T => {
  if ('value' in outcome) return outcome.value;
  const { status, code, message, details, hint } = outcome.refusal;
  throw new DataError(status, code, message, { details, hint });
};

/** A body that was read before its request is answered. What is wrong with it is thrown when somebody asks for it. */
export type ReadBody =
  | { readonly kind: 'payload'; readonly outcome: Outcome<Payload> }
  | { readonly kind: 'arguments'; readonly outcome: Outcome<NamedArguments> };

/** The facts that decide how a body is read. They can be sent to a thread. */
export interface BodyUse {
  readonly kind: ReadBody['kind'];
  readonly contentType: string;
}

const writing = new Set(['POST', 'PATCH', 'PUT']);

/** Returns how the body of a request will be read; null where it is not parsed. */
export const useOf = (method: string, target: Target, contentType: string): BodyUse | null => {
  if (target.kind !== 'function') return writing.has(method) ? { kind: 'payload', contentType } : null;
  const isWhole = wholeBodyType(mediaTypeOf(contentType)) !== undefined;
  return method !== 'POST' || isWhole ? null : { kind: 'arguments', contentType };
};

export const readBody = ({ kind, contentType }: BodyUse, bytes: Buffer): ReadBody =>
  kind === 'payload'
    ? { kind, outcome: outcomeOf(() => readPayload(contentType, bytes)) }
    : { kind, outcome: outcomeOf(() => readArguments(contentType, bytes)) };

/**
 * Reads the payload of a write.
 * @throws {DataError} PGRST102
 */
export const payloadOf = ({ read, header, body }: RestRequest): Payload =>
  read?.kind === 'payload' ? valueOf(read.outcome) : readPayload(header('content-type'), body);

/**
 * The arguments that a request calls a function with.
 * @throws {DataError} PGRST102
 */
export const argumentsOf = ({ read, header, body }: RestRequest): NamedArguments =>
  read?.kind === 'arguments' ? valueOf(read.outcome) : readArguments(header('content-type'), body);
