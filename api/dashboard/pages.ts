import { createHash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { Context, Middleware } from 'koa';
import { ServiceError } from '#lib/errors.ts';

/** A file of the build, with its compressed forms. */
interface Asset {
  readonly type: string;
  readonly plain: Buffer;
  readonly br: Buffer | undefined;
  readonly gzip: Buffer | undefined;
}

interface Build {
  readonly script: string;
  readonly style: string;
  readonly assets: ReadonlyMap<string, Asset>;
}

const types: Readonly<Record<string, string>> = {
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Returns undefined until the build is complete; scripts/dashboard-build.ts renames it into place as a whole. */
const readBuild = (folder: string): Build | undefined => {
  const manifest = path.join(folder, 'manifest.json');
  if (!existsSync(manifest)) return undefined;
  const { script, style } = JSON.parse(readFileSync(manifest, 'utf8')) as Pick<Build, 'script' | 'style'>;
  const names = new Set(readdirSync(folder));
  const read = (name: string): Buffer | undefined =>
    names.has(name) ? readFileSync(path.join(folder, name)) : undefined;
  const assets = new Map<string, Asset>();
  for (const name of names) {
    const [type, plain] = [types[path.extname(name)], read(name)];
    if (type !== undefined && plain !== undefined)
      assets.set(name, { type, plain, br: read(`${name}.br`), gzip: read(`${name}.gz`) });
  }
  return { script, style, assets };
};

const requireRead = ({ method }: Context): void => {
  if (method === 'GET' || method === 'HEAD') return;
  throw new ServiceError('method_not_allowed', `${method} is not possible here.`, { headers: { Allow: 'HEAD, GET' } });
};

/** Each name holds the hash of its content, so that it never changes. */
const sendAsset = (ctx: Context, { type, plain, br, gzip }: Asset): void => {
  const encodings = [...(br ? ['br'] : []), ...(gzip ? ['gzip'] : []), 'identity'];
  const chosen = ctx.acceptsEncodings(encodings);
  ctx.set('Cache-Control', 'public, max-age=31536000, immutable');
  ctx.vary('Accept-Encoding');
  ctx.type = type;
  if (chosen === 'br' || chosen === 'gzip') ctx.set('Content-Encoding', chosen);
  ctx.body = chosen === 'br' ? br : chosen === 'gzip' ? gzip : plain;
};

/**
 * The editor styles itself with sheets that carry the nonce, and Chromium reports typing into it as an inline style of an
 * element, which it is not: hence `style-src-attr`. Nothing else is inline, and nothing comes from elsewhere.
 */
const policyOf = (nonce: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "style-src-attr 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "frame-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');

const page = (content: string): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>plinth</title>
${content}
</html>
`;

const shellOf = ({ script, style }: Build, nonce: string): string =>
  page(`<meta name="csp-nonce" content="${nonce}">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/dashboard/assets/${style}">
<script type="module" src="/dashboard/assets/${script}"></script>
<div id="root"></div>
<noscript>The dashboard needs JavaScript. Everything that it does is also in the API: <a href="/docs">/docs</a>.</noscript>`);

const waitingStyle = 'body{font:16px system-ui;margin:20vh auto;max-width:30em;padding:0 1em;color-scheme:light dark}';
const waitingPolicy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(waitingStyle).digest('base64')}'; frame-ancestors 'none'; base-uri 'none'`;
const waiting = page(`<meta http-equiv="refresh" content="1">
<style>${waitingStyle}</style>
<p role="status">The dashboard is being built. This page loads again by itself.</p>`);

const secured = (ctx: Context, policy: string): void => {
  ctx.set('Content-Security-Policy', policy);
  ctx.set('Referrer-Policy', 'same-origin');
  ctx.set('Cross-Origin-Opener-Policy', 'same-origin');
  ctx.set('Cache-Control', 'no-store');
  ctx.type = 'text/html; charset=utf-8';
};

const assetsRoot = '/dashboard/assets/';

/** Whether the path is the API's: the dashboard signs in there. */
const isApi = (at: string): boolean => at === '/dashboard/session' || at.startsWith('/dashboard/session/');

/**
 * The dashboard at `/dashboard` and below it: one page for all addresses, whose files lie in a folder that
 * scripts/dashboard-build.ts fills. Until that is done a page says so.
 */
export const dashboardPages = (folder: string): Middleware => {
  let known: Build | undefined;
  return async (ctx, next) => {
    const at = ctx.path;
    if ((at !== '/dashboard' && !at.startsWith('/dashboard/')) || isApi(at)) return next();
    requireRead(ctx);
    known ??= readBuild(folder);
    if (at.startsWith(assetsRoot)) {
      const asset = known?.assets.get(at.slice(assetsRoot.length));
      if (asset === undefined) throw new ServiceError('not_found', 'There is no such file.');
      sendAsset(ctx, asset);
      return undefined;
    }
    if (known === undefined) {
      secured(ctx, waitingPolicy);
      ctx.set('Retry-After', '1');
      ctx.status = 503;
      ctx.body = waiting;
      return undefined;
    }
    const nonce = randomBytes(16).toString('base64');
    secured(ctx, policyOf(nonce));
    ctx.body = shellOf(known, nonce);
    return undefined;
  };
};
