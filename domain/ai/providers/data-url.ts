import { unescape } from 'node:querystring';

/** Returns the content of an inline image; null when the URL is none. */
export const readDataUrl = (url: string): { readonly mediaType: string; readonly base64: string } | null => {
  const comma = url.indexOf(',');
  if (!url.startsWith('data:') || comma === -1) return null;
  const head = url.slice('data:'.length, comma);
  const mediaType = head.split(';', 1)[0] || 'text/plain';
  // `unescape` also takes what is wrongly escaped, where decodeURIComponent throws.
  const rest = url.slice(comma + 1);
  return {
    mediaType,
    base64: head.endsWith(';base64') ? rest : Buffer.from(unescape(rest)).toString('base64'),
  };
};
