import type { AuthSettings } from './settings.ts';

type Allowed = Pick<AuthSettings, 'site_url' | 'redirect_allow_list'>;

const isLoopback = (host: string): boolean => /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(host);

/** An address as it is compared and sent: parsed, without a user or a fragment; null for what must not be followed. */
const plainUrl = (text: string): URL | null => {
  // A browser drops tabs and line breaks, and takes a backslash for a slash.
  if (/[\s\\\p{Cc}]/u.test(text) || !/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return null;
  const url = URL.parse(text);
  if (url === null || url.username !== '' || url.password !== '' || text.includes('#')) return null;
  if (/^(javascript|data|vbscript|blob|file):$/.test(url.protocol)) return null;
  if (url.protocol === 'http:' && !isLoopback(url.hostname)) return null;
  return url;
};

/** The fault of an address in the settings; null: none. `*` stands for one part of a path, `**` at the end for the rest. */
export const faultOfRedirect = (pattern: string): string | null => {
  const url = plainUrl(pattern);
  if (url === null) return 'must be an https address (http on this machine), or one with a scheme of your application';
  if (url.host.includes('*')) return 'must name its host whole';
  if (/\*\*(?!$)/.test(pattern)) return 'may have ** only at the end';
  return null;
};

const separator = /[/?#]/;

/**
 * Whether an address fits a pattern: `*` stands for one or more characters of one part, `**` at the end for the rest.
 * Each piece between two wildcards is taken where it is found first, so one pass is enough. A later place never fits more:
 * `*` does not cross a separator, so it lies in the same part of the address. As a regular expression, twenty wildcards
 * would be tried in every combination.
 */
export const fitsPattern = (pattern: string, address: string): boolean => {
  const isOpen = pattern.endsWith('**');
  const [first = '', ...pieces] = (isOpen ? pattern.slice(0, -2) : pattern).split('*');
  const last = isOpen ? undefined : pieces.pop();
  if (!address.startsWith(first)) return false;
  let at = first.length;
  const skipTo = (next: number): boolean => next > at && !separator.test(address.slice(at, next));
  for (const piece of pieces) {
    const next = address.indexOf(piece, at + 1);
    if (!skipTo(next)) return false;
    at = next + piece.length;
  }
  if (isOpen) return !address.includes('#', at);
  if (last === undefined) return at === address.length;
  return address.endsWith(last) && skipTo(address.length - last.length);
};

const isAllowed = (wanted: URL, { site_url: site, redirect_allow_list: list }: Allowed): boolean => {
  if (site !== null && URL.parse(site)?.origin === wanted.origin && wanted.origin !== 'null') return true;
  // Compared as the server writes it, so that no spelling differs from the address that is followed.
  return list.some((pattern) => fitsPattern(URL.parse(pattern)?.href ?? pattern, wanted.href));
};

/**
 * Where a sign-in leads to: the wanted address when the settings allow it, else the site; null when there is none.
 * Never an error, and never an address that a stranger chose.
 */
export const redirectFor = (settings: Allowed, wanted: string | null | undefined): string | null => {
  const url = wanted ? plainUrl(wanted) : null;
  return url !== null && isAllowed(url, settings) ? url.href : settings.site_url;
};
