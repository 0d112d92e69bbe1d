import type { ApplicationType } from './clients.ts';

/** Hosts of this very machine (RFC 8252, 7.3 and 8.3). */
const isLoopback = (host: string): boolean => /^(localhost|127\.0\.0\.1|\[::1\])$/.test(host);

/** Schemes that a browser gives a meaning of its own. */
const forbiddenSchemes = new Set([
  'javascript:',
  'data:',
  'vbscript:',
  'blob:',
  'file:',
  'about:',
  'ftp:',
  'ws:',
  'wss:',
  'mailto:',
  'tel:',
  'sms:',
  'intent:',
  'view-source:',
]);

const isWeb = ({ protocol }: URL): boolean => protocol === 'https:' || protocol === 'http:';

/** Whether an address has a scheme of an application's own. */
export const hasOwnScheme = (text: string): boolean => {
  const url = URL.parse(text);
  return url !== null && !isWeb(url);
};

const faultOfWeb = ({ protocol, hostname }: URL): string | null => {
  if (protocol === 'https:' || isLoopback(hostname)) return null;
  return 'must begin with https:// (http:// on this machine alone)';
};

const faultOfForm = (text: string, url: URL | null): string | null => {
  if (/[\s\\*\p{Cc}]/u.test(text)) return 'must hold neither spaces, backslashes, nor asterisks';
  if (url === null) return 'must be a whole address';
  if (text.includes('#')) return 'must not hold a fragment';
  if (url.username !== '' || url.password !== '') return 'must not hold a user name';
  return forbiddenSchemes.has(url.protocol) ? 'must not have this scheme' : null;
};

/**
 * The fault of an address that a client wants to be led to; null: none. Addresses are compared as they are written, so
 * what a browser would change is refused.
 */
export const faultOfRedirect = (text: string, type: ApplicationType): string | null => {
  const url = URL.parse(text);
  const fault = faultOfForm(text, url);
  if (fault !== null || url === null) return fault;
  if (isWeb(url)) return faultOfWeb(url);
  return type === 'spa' ? 'must begin with https:// for a page' : null;
};
