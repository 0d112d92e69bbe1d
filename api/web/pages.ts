import { createHash, randomBytes } from 'node:crypto';
import type { Context, Middleware } from 'koa';
import { ServiceError } from '#lib/errors.ts';
import { type ReadBuild, sendAsset } from './build.ts';

/** A page for all addresses below its own, whose views the browser tells apart. */
interface WebPage {
  /** Its name in the manifest of the build, which is also its address. */
  readonly name: 'dashboard' | 'ops';
  readonly title: string;
  /** The addresses below its own that are not the page's. */
  readonly others: RegExp;
  /** Whether it has an editor that brings style sheets of its own. */
  readonly stylesItself: boolean;
}

/** Refuses everything but GET and HEAD. */
export const requireRead = ({ method }: Context): void => {
  if (method === 'GET' || method === 'HEAD') return;
  throw new ServiceError('method_not_allowed', `${method} is not possible here.`, { headers: { Allow: 'HEAD, GET' } });
};

/**
 * Nothing is inline, and nothing comes from elsewhere. The editor styles itself with sheets that carry the nonce, and
 * Chromium reports typing into it as an inline style of an element, which it is not: hence `style-src-attr`.
 */
const policyOf = (nonce: string | null): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    ...(nonce === null
      ? ["style-src 'self'"]
      : [`style-src 'self' 'nonce-${nonce}'`, "style-src-attr 'unsafe-inline'"]),
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "frame-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');

const documentOf = (title: string, content: string): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${title}</title>
${content}
</html>
`;

const waitingStyle = 'body{font:16px system-ui;margin:20vh auto;max-width:30em;padding:0 1em;color-scheme:light dark}';
const waitingPolicy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(waitingStyle).digest('base64')}'; frame-ancestors 'none'; base-uri 'none'`;

const secured = (ctx: Context, policy: string): void => {
  ctx.set('Content-Security-Policy', policy);
  ctx.set('Referrer-Policy', 'same-origin');
  ctx.set('Cross-Origin-Opener-Policy', 'same-origin');
  ctx.type = 'text/html; charset=utf-8';
};

const sendWaiting = (ctx: Context, { title }: WebPage): void => {
  secured(ctx, waitingPolicy);
  ctx.set('Cache-Control', 'no-store');
  ctx.set('Retry-After', '1');
  ctx.status = 503;
  ctx.body = documentOf(
    title,
    `<meta http-equiv="refresh" content="1">
<style>${waitingStyle}</style>
<p role="status">This page is being built. It loads again by itself.</p>`,
  );
};

const webPage = (build: ReadBuild, page: WebPage): Middleware => {
  const base = `/${page.name}`;
  const assets = `${base}/assets/`;
  return async (ctx, next) => {
    const at = ctx.path;
    if ((at !== base && !at.startsWith(`${base}/`)) || page.others.test(at)) return next();
    requireRead(ctx);
    const known = build();
    if (at.startsWith(assets)) {
      const asset = known?.assets.get(at.slice(assets.length));
      if (asset === undefined) throw new ServiceError('not_found', 'There is no such file.');
      sendAsset(ctx, asset);
      return undefined;
    }
    const entry = known?.entries[page.name];
    if (entry === undefined) return sendWaiting(ctx, page);
    const nonce = page.stylesItself ? randomBytes(16).toString('base64') : null;
    secured(ctx, policyOf(nonce));
    ctx.set('Cache-Control', nonce === null ? 'no-cache' : 'no-store');
    ctx.body = documentOf(
      page.title,
      `${nonce === null ? '' : `<meta name="csp-nonce" content="${nonce}">\n`}<link rel="icon" href="data:,">
<link rel="stylesheet" href="${assets}${entry.style}">
<script type="module" src="${assets}${entry.script}"></script>
<div id="root"><p class="loading">Loading…</p></div>
<noscript>This page needs JavaScript. Everything that it does is also in the API: <a href="/docs">/docs</a>.</noscript>`,
    );
    return undefined;
  };
};

/** The dashboard at `/dashboard` and below it. Until it is built, it says so. */
export const dashboardPage = (build: ReadBuild): Middleware =>
  webPage(build, {
    name: 'dashboard',
    title: 'plinth',
    others: /^\/dashboard\/session(?:\/|$)/,
    stylesItself: true,
  });

/** The operators' page at `/ops` and below it. Until it is built, it says so. */
export const opsPage = (build: ReadBuild): Middleware =>
  webPage(build, {
    name: 'ops',
    title: 'plinth operations',
    others: /^\/ops\/(?:api|session|bullmq)(?:\/|$)/,
    stylesItself: false,
  });
