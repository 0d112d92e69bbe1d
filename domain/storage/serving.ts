import type { StoredObject } from './store.ts';

/** How an object is handed out, by its headers alone: its bytes are never looked at. */

/** Types that browsers run, or that hold what they run; with any `+xml`. */
const runs: ReadonlySet<string> = new Set([
  'application/ecmascript',
  'application/javascript',
  'application/x-javascript',
  'application/x-shockwave-flash',
  'application/xml',
  'application/xslt+xml',
  'application/mathml+xml',
  'multipart/x-mixed-replace',
  'message/rfc822',
  'text/ecmascript',
  'text/html',
  'text/javascript',
  'text/jscript',
  'text/vbscript',
  'text/xml',
  'text/xsl',
]);

const bareType = (type: string): string => type.replace(/;.*/s, '').trim().toLowerCase();

const isRun = (type: string, pdf: 'inline' | 'attachment'): boolean => {
  const bare = bareType(type);
  if (bare === 'application/pdf') return pdf === 'attachment';
  return runs.has(bare) || bare.endsWith('+xml') || bare.includes('script');
};

const typeForm = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?: *; *[\w!#$&^.+-]+=(?:[\w!#$&^.+-]+|"[ !#-[\]-~]*"))*$/;

/** A media type that can stand in a header; anything else is bytes. */
export const mediaType = (given: string): string => {
  const type = given.trim();
  return type.length <= 255 && typeForm.test(type) ? type : 'application/octet-stream';
};

const cacheForm = /^[\w ,=-]{1,255}$/;

/** The value of `Cache-Control` for what an upload asks: seconds, or directives. */
export const cacheControl = (given: string): string => {
  const text = given.trim();
  if (/^\d{1,10}$/.test(text)) return `max-age=${text}`;
  return cacheForm.test(text) ? text : 'no-cache';
};

/** RFC 6266: plain ASCII for old clients, the name itself as RFC 8187 has it. */
const disposition = (kind: 'inline' | 'attachment', name: string): string => {
  const plain = name.replaceAll(/[^ !#-[\]-~]/g, '_');
  const encoded = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (character) => `%${(character.codePointAt(0) ?? 0).toString(16).toUpperCase()}`,
  );
  return `${kind}; filename="${plain}"; filename*=UTF-8''${encoded}`;
};

export interface Serving {
  /** The name that `?download=` gives; empty: the object's own; null: it is not asked for. */
  readonly download: string | null;
  /** Whether the address is the project's own host name, where nothing of the platform's is. */
  readonly ownHost: boolean;
  /** Whether PDF opens in the browser. */
  readonly pdf: 'inline' | 'attachment';
  /** Whether answers may be kept by caches that others use. */
  readonly isPublic: boolean;
  /** A member asks, on the origin of the platform's own pages: every file is saved, and none is kept by the browser. */
  readonly byMember?: boolean;
}

const cacheOf = ({ cache_control: text }: StoredObject, { isPublic, byMember = false }: Serving): string => {
  // A file that a member has seen must not stay in the browser when the session is over.
  if (byMember) return 'no-store';
  return isPublic || /\b(?:private|no-store)\b/i.test(text)
    ? text
    : `private, ${text.replaceAll(/\bpublic\b,? */gi, '')}`;
};

/** storage-js escapes the name of a signed address twice. */
const unescaped = (name: string): string => {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
};

const usable = (name: string): string => {
  const plain = unescaped(name).slice(0, 255);
  return plain.isWellFormed() && !plain.includes('\0') ? plain : 'download';
};

/**
 * The headers of an object. What runs in a browser is saved and not opened where the platform's own pages live, and
 * nothing that is opened runs in any case: no scripts, no forms, an origin of its own (decision 057).
 */
export const servingHeaders = (object: StoredObject, serving: Serving): Readonly<Record<string, string>> => {
  const file = object.name.slice(object.name.lastIndexOf('/') + 1);
  const { byMember = false, ownHost, download } = serving;
  const isSaved = byMember || download !== null || (!ownHost && isRun(object.mime_type, serving.pdf));
  return {
    'Content-Type': object.mime_type,
    'X-Content-Type-Options': 'nosniff',
    'Content-Security-Policy':
      "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src 'self'; sandbox",
    'Cross-Origin-Resource-Policy': byMember ? 'same-origin' : 'cross-origin',
    'Referrer-Policy': 'no-referrer',
    'Cache-Control': cacheOf(object, serving),
    ETag: `"${object.etag}"`,
    'Last-Modified': new Date(object.updated_at).toUTCString(),
    'Accept-Ranges': 'bytes',
    ...(isSaved && {
      'Content-Disposition': disposition('attachment', download ? usable(download) : file),
    }),
  };
};
