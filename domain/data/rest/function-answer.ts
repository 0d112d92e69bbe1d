import { DataError } from '../errors.ts';

/** What a function set for its own answer: `response.status` and `response.headers` (PostgREST, "Response Headers"). */
export interface OwnAnswer {
  readonly status: number | null;
  readonly headers: Readonly<Record<string, string>>;
}

const statusError = (): DataError => new DataError(500, 'PGRST112', 'response.status guc must be a valid status code');

const headersError = (): DataError =>
  new DataError(
    500,
    'PGRST111',
    'response.headers guc must be a JSON array composed of objects with a single key and a string value',
  );

// What only the server itself may say of an answer, and what would end up in other people's sessions.
const reserved =
  /^(?:connection|content-length|transfer-encoding|keep-alive|upgrade|trailer|te|set-cookie|date|x-request-id|access-control-.*)$/;

const isHeader = (name: string, value: unknown): value is string =>
  /^[\w!#$%&'*+.^`|~-]{1,100}$/.test(name) && typeof value === 'string' && /^[\t\x20-\x7e]*$/.test(value);

const pairOf = (entry: unknown): [string, string] => {
  const pairs: [string, unknown][] = typeof entry === 'object' && entry !== null ? Object.entries(entry) : [];
  const [pair] = pairs;
  if (pair === undefined || pairs.length !== 1) throw headersError();
  const [name, value] = pair;
  if (!isHeader(name, value)) throw headersError();
  return [name, value];
};

const headersOf = (text: string): Record<string, string> => {
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch {
    throw headersError();
  }
  if (!Array.isArray(entries)) throw headersError();
  return Object.fromEntries(entries.map(pairOf).filter(([name]) => !reserved.test(name.toLowerCase())));
};

/** @throws {DataError} PGRST111, PGRST112 when it makes no sense */
export const ownAnswerOf = (status: string | null, headers: string | null): OwnAnswer => {
  const code = status === null || status === '' ? null : Number(status);
  if (code !== null && !(Number.isInteger(code) && code >= 200 && code <= 599)) throw statusError();
  return { status: code, headers: headers === null || headers === '' ? {} : headersOf(headers) };
};
