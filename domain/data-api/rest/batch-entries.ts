import { parseExactJson } from '#lib/json.ts';
import type { DataError } from '#domain/data-api/errors.ts';
import type { ReadBody } from './body-reading.ts';
import { invalidBody, mediaTypeOf, parseJson, textOf } from './payload.ts';
import type { Target } from './request.ts';
import { targetOf } from './target.ts';

/** A request of a batch, as it can be sent from a thread. */
export interface BatchEntry {
  /** In capitals. */
  readonly method: string;
  readonly path: string;
  readonly target: Target;
  readonly queryText: string;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  readonly read?: ReadBody;
}

const maxEntries = 100;
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']);

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const wrong = (index: number, what: string): DataError => invalidBody(`Entry ${index} of the batch: ${what}`);

const headersOf = (headers: unknown, index: number): ReadonlyMap<string, string> => {
  if (headers === undefined || headers === null) return new Map();
  if (!isRecord(headers) || Object.values(headers).some((value) => typeof value !== 'string'))
    throw wrong(index, '"headers" must be an object of texts');
  return new Map(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)]));
};

/** The body as it would have come by itself: JSON of any kind, or text of another media type. */
const bodyOf = (body: unknown, headers: ReadonlyMap<string, string>): string => {
  if (body === undefined) return '';
  const isJson = /[/+]json$|^application\/vnd\.pgrst\./.test(mediaTypeOf(headers.get('content-type') ?? ''));
  return !isJson && typeof body === 'string' ? body : JSON.stringify(body);
};

const entryOf = (entry: unknown, index: number, withRows: boolean): BatchEntry => {
  if (!isRecord(entry)) throw wrong(index, 'it must be an object {method, path, headers?, body?}');
  const { method, path, headers, body, ...rest } = entry;
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw wrong(index, `"${unknown}" is not known`);
  if (typeof method !== 'string' || !methods.has(method.toUpperCase()))
    throw wrong(index, '"method" must be one of HTTP');
  if (typeof path !== 'string') throw wrong(index, '"path" must be a text');
  const cut = path.indexOf('?');
  const target = targetOf(cut === -1 ? path : path.slice(0, cut), withRows);
  if (target === null || target.kind === 'root' || (target.kind === 'function' && target.name === '$batch'))
    throw wrong(index, '"path" must be a table or rpc/{function}, relative to the root of the REST API');
  const given = headersOf(headers, index);
  return {
    method: method.toUpperCase(),
    path,
    target,
    queryText: cut === -1 ? '' : path.slice(cut + 1),
    headers: given,
    body: bodyOf(body, given),
  };
};

/**
 * The requests of a batch; numbers in their bodies stay as they were written.
 * @param withRows whether paths of rows (`films/7`) are known
 * @throws {DataError} PGRST102
 */
export const readEntries = (body: Buffer, withRows: boolean): readonly BatchEntry[] => {
  const entries = parseJson(textOf(body), parseExactJson);
  if (!Array.isArray(entries)) throw invalidBody('A batch is an array of {method, path, headers?, body?}');
  if (entries.length > maxEntries) throw invalidBody(`A batch holds at most ${maxEntries} requests`);
  return entries.map((entry, index) => entryOf(entry, index, withRows));
};
