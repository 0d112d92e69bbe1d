import type { AnswerBody } from '../answer-body.ts';
import type { DataCaller, RunOne, RunRows } from '../data-api.ts';
import type { DataSchema } from '../schema/schema.ts';
import type { ReadBody } from './payload.ts';
import type { ParsedQuery } from './grammar/grammar.ts';
import { DataError } from '../errors.ts';

/** The meaning of a path of the REST surface. */
export type Target =
  | { readonly kind: 'root' }
  | { readonly kind: 'table'; readonly table: string }
  /** One row by its primary key; the values of a key of several columns are joined by commas. */
  | { readonly kind: 'row'; readonly table: string; readonly id: string }
  | { readonly kind: 'function'; readonly name: string };

/** How the prefixes differ under which the surface is served. */
export interface Dialect {
  /** `column=value` without an operator is equality. */
  readonly bareEquality: boolean;
  /** A POST that says nothing about it is answered with what it created. */
  readonly returnsCreated: boolean;
  /** Up to where the names of tables begin, for `Location`. */
  readonly root: string;
}

/** A request in the REST dialect, from the wire or out of a batch. */
export interface RestRequest {
  readonly method: string;
  readonly path: string;
  readonly target: Target;
  /** The text after the `?`, undecoded. */
  readonly queryText: string;
  /** Empty when there is none of that name. */
  readonly header: (name: string) => string;
  readonly body: Buffer;
  /** The part of a large body that a thread has read. */
  readonly read?: ReadBody;
}

export interface RestAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Empty where there is no body. */
  readonly type: string;
  readonly body: AnswerBody;
}

/** Where the statements of one request run. */
export interface Executor {
  /** The operations within a transaction that has started, and that can write. */
  readonly isShared: boolean;
  /** Nothing is written in mode `read`, but for within a batch, which is one transaction. */
  readonly one: (mode: 'read' | 'write', sql: Parameters<RunOne>[0]) => ReturnType<RunOne>;
  /** As `one`, for a statement whose answer comes in several rows. */
  readonly rows: (mode: 'read' | 'write', sql: Parameters<RunRows>[0]) => ReturnType<RunRows>;
  /** Several, whole or not at all. */
  readonly atomically: <T>(mode: 'read' | 'write', work: (one: RunOne, rows: RunRows) => Promise<T>) => Promise<T>;
}

/** The dependencies of the parts that answer a request. */
export interface Work {
  readonly request: RestRequest;
  readonly dialect: Dialect;
  readonly schema: DataSchema;
  readonly caller: DataCaller;
  readonly preferences: Preferences;
  readonly form: Form;
  readonly executor: Executor;
  /** The query string, read but not yet held against the schema. */
  readonly query: ParsedQuery;
}

/** Largest and default page of a list (contract, section 5). */
export const maxRows = 1000;

/** Only those that say something. */
export const headersOf = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ''));

const decoded = (segment: string): string | null => {
  try {
    return decodeURIComponent(segment);
  } catch {
    return null;
  }
};

/**
 * Parses a path below the root of the surface: `films`, `rpc/add`, and with rows `films/7`.
 * @returns null when it means nothing
 */
export const targetOf = (path: string, withRows: boolean): Target | null => {
  const segments = path.replace(/^\//, '').split('/').map(decoded);
  const [first = null, second = null] = segments;
  if (first === null || segments.length > 2) return null;
  if (segments.length === 1) return first === '' ? { kind: 'root' } : { kind: 'table', table: first };
  if (second === null || second === '') return null;
  if (first === 'rpc') return { kind: 'function', name: second };
  return withRows ? { kind: 'row', table: first, id: second } : null;
};

const publicSchema = 'public';

/**
 * The schema that a request is about: `Accept-Profile` for GET and HEAD, `Content-Profile` for the others (PostgREST,
 * "Schemas"). Without the header it is `public`.
 * @param exposed the schemas beside public that the project's settings name
 * @throws {DataError} PGRST106 when it is not exposed: to take another one would read and write the wrong table
 */
export const schemaNameOf = ({ method, header }: RestRequest, exposed: readonly string[]): string => {
  const isRead = method === 'GET' || method === 'HEAD';
  const name = header(isRead ? 'accept-profile' : 'content-profile') || publicSchema;
  if (name === publicSchema || exposed.includes(name)) return name;
  throw new DataError(406, 'PGRST106', `Invalid schema: ${name.slice(0, 200)}`, {
    hint: `Only the following schemas are exposed: ${[publicSchema, ...exposed].join(', ')}`,
  });
};

/**
 * A batch is about one schema, that of its own header.
 * @throws {DataError} PGRST106 when one of its requests names another
 */
export const requireSameSchema = ({ header }: RestRequest, schema: string): void => {
  const named = [header('accept-profile'), header('content-profile')];
  const other = named.find((name) => name !== '' && name !== schema);
  if (other === undefined) return;
  throw new DataError(406, 'PGRST106', `Invalid schema: ${other.slice(0, 200)}`, {
    hint: `The requests of this batch are about the schema ${schema}, as its Content-Profile says.`,
  });
};

/** The preferences of a request in `Prefer` (RFC 7240), in PostgREST's words; undefined where it has none. */
export interface Preferences {
  readonly return: 'minimal' | 'headers-only' | 'representation' | undefined;
  readonly count: 'exact' | 'planned' | 'estimated' | undefined;
  readonly resolution: 'merge-duplicates' | 'ignore-duplicates' | undefined;
  readonly missing: 'default' | 'null' | undefined;
  readonly handling: 'strict' | 'lenient' | undefined;
  /** A name that JavaScript knows as a time zone; the server's own list decides. */
  readonly timezone: string | undefined;
  /** Counts only with `handling=strict`, as in PostgREST. */
  readonly maxAffected: number | undefined;
}

export type PreferenceName = keyof Preferences;

const choices: Readonly<Record<string, readonly string[]>> = {
  return: ['minimal', 'headers-only', 'representation'],
  count: ['exact', 'planned', 'estimated'],
  resolution: ['merge-duplicates', 'ignore-duplicates'],
  missing: ['default', 'null'],
  handling: ['strict', 'lenient'],
  // Every change is committed; to ask for that is no mistake.
  tx: ['commit'],
};

const isTimeZone = (name: string): boolean => {
  if (!/^[\w+/-]{1,64}$/.test(name)) return false;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
};

const isKnown = (name: string, value: string): boolean => {
  if (name === 'timezone') return isTimeZone(value);
  if (name === 'max-affected') return /^\d{1,9}$/.test(value);
  return Object.hasOwn(choices, name) && (choices[name]?.includes(value) ?? false);
};

const none: Preferences = {
  return: undefined,
  count: undefined,
  resolution: undefined,
  missing: undefined,
  handling: undefined,
  timezone: undefined,
  maxAffected: undefined,
};

const preferencesOf = (given: ReadonlyMap<string, string>): Preferences => {
  const choice = <N extends 'return' | 'count' | 'resolution' | 'missing' | 'handling'>(name: N): Preferences[N] =>
    given.get(name) as Preferences[N];
  const max = given.get('max-affected');
  return {
    return: choice('return'),
    count: choice('count'),
    resolution: choice('resolution'),
    missing: choice('missing'),
    handling: choice('handling'),
    timezone: given.get('timezone'),
    maxAffected: max === undefined ? undefined : Number(max),
  };
};

/**
 * Reads `Prefer`. Of a preference that is given twice the first counts (RFC 7240); what is not understood is ignored.
 * @throws {DataError} PGRST122 with `handling=strict` when something is not understood
 */
export const parsePreferences = (header: string): Preferences => {
  if (header === '') return none;
  const given = new Map<string, string>();
  const unknown: string[] = [];
  for (const part of header.split(',').map((text) => text.trim())) {
    const [name = '', value = ''] = part.split('=', 2).map((text) => text.trim().replaceAll('"', ''));
    const key = name.toLowerCase();
    if (!isKnown(key, value)) unknown.push(part);
    else if (!given.has(key)) given.set(key, value);
  }
  const bad = unknown.filter((part) => part !== '');
  if (given.get('handling') === 'strict' && bad.length > 0) {
    throw new DataError(400, 'PGRST122', 'Invalid preferences given with handling=strict', {
      details: `Invalid preferences: ${bad.join(', ')}`,
    });
  }
  return preferencesOf(given);
};

const headerNames: Readonly<Record<PreferenceName, string>> = {
  resolution: 'resolution',
  return: 'return',
  count: 'count',
  missing: 'missing',
  handling: 'handling',
  timezone: 'timezone',
  maxAffected: 'max-affected',
};

/** `Preference-Applied`: what was asked for among the preferences that mean something to this request. */
export const preferenceApplied = (preferences: Preferences, names: readonly PreferenceName[]): string =>
  (Object.keys(headerNames) as PreferenceName[])
    .filter((name) => names.includes(name) && preferences[name] !== undefined)
    .map((name) => `${headerNames[name]}=${preferences[name]}`)
    .join(', ');

/** In which form rows go out. */
export interface Form {
  readonly kind: 'array' | 'object' | 'csv';
  /** Keys whose value is null are left out. */
  readonly stripNulls: boolean;
  /** For `Content-Type`. */
  readonly type: string;
}

const objectType = 'application/vnd.pgrst.object';
const arrayType = 'application/vnd.pgrst.array';

const json: Form = { kind: 'array', stripNulls: false, type: 'application/json; charset=utf-8' };
const csv: Form = { kind: 'csv', stripNulls: false, type: 'text/csv; charset=utf-8' };

const pgrst = (kind: 'array' | 'object', stripNulls: boolean): Form => {
  const name = kind === 'object' ? objectType : arrayType;
  return { kind, stripNulls, type: `${name}+json;${stripNulls ? ' nulls=stripped;' : ''} charset=utf-8` };
};

interface Range {
  readonly type: string;
  readonly parameters: string;
  readonly quality: number;
}

const rangeOf = (text: string): Range => {
  const [type = '', ...rest] = text.split(';').map((part) => part.trim().toLowerCase());
  const q = rest.find((part) => part.startsWith('q='))?.slice(2);
  const quality = q === undefined ? 1 : Number(q);
  return { type, parameters: rest.join(';'), quality: Number.isFinite(quality) ? quality : 0 };
};

const formOf = ({ type, parameters }: Range): Form | undefined => {
  const bare = type.replace(/\+json$/, '');
  if (bare === objectType) return pgrst('object', parameters.includes('nulls=stripped'));
  if (bare === arrayType) return parameters.includes('nulls=stripped') ? pgrst('array', true) : json;
  if (type === 'application/json' || type === 'application/*' || type === '*/*') return json;
  if (type === 'text/csv' || type === 'text/*') return csv;
  return undefined;
};

/**
 * The form that `Accept` asks for, the most wanted first.
 * @throws {DataError} PGRST107 when it takes none that there is
 */
export const negotiate = (accept: string): Form => {
  if (accept === '' || accept === '*/*' || accept === 'application/json') return json;
  const ranges = accept
    .split(',')
    .map(rangeOf)
    .filter(({ type, quality }) => type !== '' && quality > 0)
    .toSorted((a, b) => b.quality - a.quality);
  for (const range of ranges) {
    const form = formOf(range);
    if (form !== undefined) return form;
  }
  throw new DataError(406, 'PGRST107', `None of these media types are available: ${accept.slice(0, 200)}`);
};

/** How a result of not exactly one row is refused where one was asked for. */
export const notSingular = (rows: number): DataError =>
  new DataError(406, 'PGRST116', 'Cannot coerce the result to a single JSON object', {
    details: `The result contains ${rows} rows`,
  });
