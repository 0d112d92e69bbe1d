import { usage } from '../../errors.ts';
import { cleanLine } from '../../text.ts';
import type { Files } from './access.ts';

/** `plinth://bucket/path`; the path may be empty. */
export interface Place {
  readonly bucket: string;
  readonly name: string;
}

const scheme = 'plinth://';

export const isRemote = (given: string): boolean => given.startsWith(scheme);

/** @throws {Failure} `usage` */
export const readPlace = (given: string, files: Pick<Files, 'bucket'>): Place => {
  if (!isRemote(given)) throw usage(`"${cleanLine(given)}" is not of the form plinth://bucket/path.`);
  const rest = given.slice(scheme.length);
  const at = rest.indexOf('/');
  const [bucket, name] = at === -1 ? [rest, ''] : [rest.slice(0, at), rest.slice(at + 1)];
  return { bucket: bucket === '' ? files.bucket : bucket, name };
};

export const shownPlace = ({ bucket, name }: Place): string => cleanLine(`${scheme}${bucket}/${name}`);

/** As a part of a URL: slashes stay. */
export const urlPath = ({ bucket, name }: Place): string =>
  [bucket, ...name.split('/')].map(encodeURIComponent).join('/');

export const hasGlob = (name: string): boolean => /[*?]/.test(name);

/** `*` is everything within a folder, `**` across folders, `?` one character. */
export const globMatcher = (glob: string): ((name: string) => boolean) => {
  const source = glob.replaceAll(/\*\*\/?|[*?]|[.+^${}()|[\]\\]/g, (part) => {
    if (part === '**/') return '(?:.*/)?';
    if (part === '**') return '.*';
    if (part === '*') return '[^/]*';
    return part === '?' ? '[^/]' : `\\${part}`;
  });
  const form = new RegExp(`^${source}$`, 'su');
  return (name) => form.test(name);
};

/** The part of a glob before its first wildcard: what a list can be asked for. */
export const fixedPart = (glob: string): string => glob.slice(0, glob.search(/[*?]/));

const types: Readonly<Record<string, string>> = {
  avif: 'image/avif',
  css: 'text/css',
  csv: 'text/csv',
  gif: 'image/gif',
  gz: 'application/gzip',
  html: 'text/html',
  ico: 'image/x-icon',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  js: 'text/javascript',
  json: 'application/json',
  md: 'text/markdown',
  mjs: 'text/javascript',
  mp3: 'audio/mpeg',
  mp4: 'video/mp4',
  pdf: 'application/pdf',
  png: 'image/png',
  sql: 'application/sql',
  svg: 'image/svg+xml',
  tar: 'application/x-tar',
  txt: 'text/plain',
  wasm: 'application/wasm',
  wav: 'audio/wav',
  webm: 'video/webm',
  webp: 'image/webp',
  woff2: 'font/woff2',
  xml: 'application/xml',
  yaml: 'application/yaml',
  yml: 'application/yaml',
  zip: 'application/zip',
};

export const mediaTypeOf = (name: string): string =>
  types[/\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ''] ?? 'application/octet-stream';
