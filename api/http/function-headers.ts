import type { IncomingHttpHeaders } from 'node:http';
import { isForProxies } from '#lib/proxy-headers.ts';
import type { HttpRequest } from '../call.ts';

/**
 * Headers of one connection only (RFC 9110, 7.6.1), and those that hold our own credentials: a function gets neither.
 */
const neverPassed = new Set([
  'apikey',
  'connection',
  'expect',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-api-key',
]);

/** A cookie without a name is sent as its value alone, which may look like another's name. */
const ownCookie = /^[\s=]*(?:__(?:host|secure)-)?plinth_/i;

/** Cookies reach a project's own host only; none of ours is among them. */
const cookieFor = (cookie: string, isOwnHost: boolean): string =>
  isOwnHost
    ? cookie
        .split(';')
        .filter((each) => !ownCookie.test(each))
        .join(';')
        .trim()
    : '';

/**
 * The headers of a request as a function gets them.
 * @param foreign the header `Authorization` is another service's, for a function that takes everybody
 */
export const passedHeaders = (
  headers: IncomingHttpHeaders,
  { isOwnHost, foreign }: { readonly isOwnHost: boolean; readonly foreign: boolean },
): Record<string, string> => {
  const passed = Object.entries(headers).flatMap(([name, value]): [string, string][] => {
    if (value === undefined || neverPassed.has(name)) return [];
    const text = typeof value === 'string' ? value : value.join(', ');
    if (name === 'authorization') return foreign ? [[name, text]] : [];
    const shown = name === 'cookie' ? cookieFor(text, isOwnHost) : text;
    return shown === '' && name === 'cookie' ? [] : [[name, shown]];
  });
  return Object.fromEntries(passed);
};

/** Ours: they say what the platform has done. */
const platformHeaders = new Set([
  'preference-applied',
  'ratelimit',
  'ratelimit-policy',
  'x-content-type-options',
  'x-function-version',
  'x-invocation-id',
  'x-plinth-dropped',
  'x-request-id',
]);

/**
 * They apply to the whole origin, not to one answer: on a host that projects share one of them would speak for the
 * platform and for all the others.
 */
const originWide = new Set([
  'accept-ch',
  'alt-svc',
  'clear-site-data',
  'nel',
  'public-key-pins',
  'report-to',
  'reporting-endpoints',
  'service-worker-allowed',
  'set-cookie',
  'set-login',
  'strict-transport-security',
  'use-as-dictionary',
]);

/**
 * An answer that a browser shows as a document runs its scripts in an origin of its own: on the shared host are the
 * pages and cookies of the platform (decision 057). Whatever the media type says, since some (XML, multipart) hold
 * documents, too.
 */
const sandboxPolicy =
  'sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads allow-top-navigation-by-user-activation';

/** All of them: of several attributes with one name browsers take the last. */
const domainsOf = (cookie: string): string[] =>
  cookie
    .split(';')
    .slice(1)
    .map((attribute) => /^\s*domain\s*=\s*\.?(.*)$/is.exec(attribute)?.[1]?.trim().toLowerCase() ?? '')
    .filter((domain) => domain !== '');

/** A cookie for more than this host, or in the name of the platform. */
const isForeignCookie = (cookie: string, host: string): boolean =>
  ownCookie.test(cookie) || domainsOf(cookie).some((domain) => domain !== host.toLowerCase());

const keptCookies = (value: string | readonly string[], host: string): readonly string[] =>
  (typeof value === 'string' ? [value] : value).filter((cookie) => !isForeignCookie(cookie, host));

type HeaderValue = string | readonly string[];
type Host = Pick<HttpRequest, 'isOwnHost' | 'host'>;

/** The value as it goes out; empty: the header does not. */
const shownValue = (name: string, value: HeaderValue, { isOwnHost, host }: Host): HeaderValue => {
  if (platformHeaders.has(name) || isForProxies(name) || (!isOwnHost && originWide.has(name))) return [];
  return name === 'set-cookie' ? keptCookies(value, host) : value;
};

const isCut = (shown: HeaderValue, value: HeaderValue): boolean =>
  shown.length < (typeof value === 'string' && typeof shown !== 'string' ? 1 : value.length);

const policiesOf = (own: HeaderValue | undefined): readonly string[] =>
  typeof own === 'string' ? [own, sandboxPolicy] : [sandboxPolicy];

/** The headers of a function's response as they go out, and the names of those that do not. */
export const answerHeaders = (
  given: Readonly<Record<string, HeaderValue>>,
  host: Host,
): ReadonlyMap<string, HeaderValue> => {
  const headers = new Map<string, HeaderValue>();
  const dropped: string[] = [];
  for (const [name, value] of Object.entries(given)) {
    const shown = shownValue(name, value, host);
    if (shown.length > 0) headers.set(name, shown);
    if (isCut(shown, value)) dropped.push(name);
  }
  if (dropped.length > 0) headers.set('X-Plinth-Dropped', dropped.join(', '));
  if (!host.isOwnHost) headers.set('content-security-policy', policiesOf(given['content-security-policy']));
  return headers;
};
