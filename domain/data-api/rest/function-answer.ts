import { DataError } from '#domain/data-api/errors.ts';

/**
 * The settings by which a function sets its own answer: `response.status` and `response.headers` (PostgREST, "Response
 * Headers").
 */
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

/** Characters that `response.status` and `response.headers` may have. */
export const maxOwnAnswerLength = 16_384;

// Headers that a function may set. All projects are served from one origin, so a project may not set what a browser
// applies to the origin (cookies, policies, cross-origin access, authentication), nor the framing and the type of the
// answer, which is negotiated.
const allowed =
  /^(?:cache-control|content-disposition|content-language|etag|expires|last-modified|link|location|retry-after|sunset|x-.+)$/;

// Headers with `x-` that stay reserved: those that proxies obey, that browsers act on, and that the platform sets
// itself.
const reserved =
  /^x-(?:accel-.*|sendfile|lighttpd-.*|litespeed-.*|forwarded-.*|real-ip|request-id|ratelimit-.*|rate-limit-.*|frame-options|content-type-options|xss-protection|permitted-cross-domain-policies|dns-prefetch-control|download-options|ua-compatible)$/;

const isAllowed = (name: string): boolean => allowed.test(name) && !reserved.test(name);

const isHeader = (name: string, value: unknown): value is string =>
  /^[\w!#$%&'*+.^`|~-]{1,100}$/.test(name) && typeof value === 'string' && /^[\t\x20-\x7e]*$/.test(value);

const pairOf = (entry: unknown): [string, string] => {
  const pairs: [string, unknown][] = typeof entry === 'object' && entry !== null ? Object.entries(entry) : [];
  const [pair] = pairs;
  if (pair === undefined || pairs.length !== 1) throw headersError();
  const [name, value] = pair;
  if (!isHeader(name, value)) throw headersError();
  return [name.toLowerCase(), value];
};

const sharing = /^(?:public|private|s-maxage|must-revalidate|proxy-revalidate)\b/i;

/** For the caller's own cache only: a proxy that does not know the keys' headers would give the answer to everybody. */
const privately = (cacheControl: string): string =>
  ['private', ...cacheControl.split(',').map((part) => part.trim())]
    .filter((part, index) => part !== '' && (index === 0 || !sharing.test(part)))
    .join(', ');

const headersOf = (text: string): Record<string, string> => {
  if (text.length > maxOwnAnswerLength) throw headersError();
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch {
    throw headersError();
  }
  if (!Array.isArray(entries)) throw headersError();
  const headers = Object.fromEntries(entries.map(pairOf).filter(([name]) => isAllowed(name)));
  const isCached = headers['cache-control'] !== undefined || headers['expires'] !== undefined;
  return isCached ? { ...headers, 'cache-control': privately(headers['cache-control'] ?? '') } : headers;
};

/**
 * Headers that are not a function's to set are left out.
 * @throws {DataError} PGRST111, PGRST112 when it makes no sense
 */
export const ownAnswerOf = (status: string | null, headers: string | null): OwnAnswer => {
  const code = status === null || status === '' ? null : Number(status);
  if (code !== null && !(Number.isInteger(code) && code >= 200 && code <= 599)) throw statusError();
  return { status: code, headers: headers === null || headers === '' ? {} : headersOf(headers) };
};
