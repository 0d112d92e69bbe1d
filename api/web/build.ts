import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { Context } from 'koa';
import { acceptedEncoding } from '../http/compress.ts';

/** A file of the build, with its compressed forms. */
interface Asset {
  readonly type: string;
  readonly plain: Buffer;
  readonly br: Buffer | undefined;
  readonly gzip: Buffer | undefined;
}

/** The names of the files that a page loads first. */
interface Entry {
  readonly script: string;
  readonly style: string;
}

interface Build {
  readonly entries: Readonly<Record<string, Entry>>;
  readonly assets: ReadonlyMap<string, Asset>;
}

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Returns undefined until the build is complete; scripts/web-build.ts renames it into place as a whole. */
const readBuild = (folder: string): Build | undefined => {
  const manifest = path.join(folder, 'manifest.json');
  if (!existsSync(manifest)) return undefined;
  const entries = JSON.parse(readFileSync(manifest, 'utf8')) as Build['entries'];
  const names = new Set(readdirSync(folder));
  const read = (name: string): Buffer | undefined =>
    names.has(name) ? readFileSync(path.join(folder, name)) : undefined;
  const assets = new Map<string, Asset>();
  for (const name of names) {
    const [type, plain] = [types[path.extname(name)], read(name)];
    if (type !== undefined && plain !== undefined)
      assets.set(name, { type, plain, br: read(`${name}.br`), gzip: read(`${name}.gz`) });
  }
  return { entries, assets };
};

/** Gives the build, and undefined until it is complete. */
export type ReadBuild = () => Build | undefined;

/** The build in that folder, read once it is complete. */
export const openBuild = (folder: string): ReadBuild => {
  let known: Build | undefined;
  return () => (known ??= readBuild(folder));
};

/** Each name holds the hash of its content, so that it never changes. */
export const sendAsset = (ctx: Context, { type, plain, br, gzip }: Asset): void => {
  const encodings = [...(br ? ['br'] : []), ...(gzip ? ['gzip'] : []), 'identity'];
  const chosen = acceptedEncoding(ctx, encodings);
  ctx.set('Cache-Control', 'public, max-age=31536000, immutable');
  ctx.vary('Accept-Encoding');
  ctx.type = type;
  if (chosen === 'br' || chosen === 'gzip') ctx.set('Content-Encoding', chosen);
  ctx.body = chosen === 'br' ? br : chosen === 'gzip' ? gzip : plain;
};
