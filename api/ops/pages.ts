import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { Context, Middleware } from 'koa';
import { cachedFor } from '#lib/cached-for.ts';
import { ServiceError } from '#lib/errors.ts';
import { requireOperator } from '#api/auth/operator.ts';
import type { Deps } from '#api/deps.ts';
import type { BoardOptions } from './bull-board.ts';
import { opsLive } from './live.ts';

const folder = path.join(import.meta.dirname, '../../web/ops');
/** The colours, which this page shares with the dashboard. */
const theme = path.join(folder, '../theme.css');

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
};

// Nothing from elsewhere, nothing inline.
const ownSecurity =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";
// Bull Board styles itself inline, names its base, and asks for a font that it does without.
const boardSecurity =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; font-src 'self'; frame-ancestors 'none'; base-uri 'self'";

interface PageFile {
  readonly type: string;
  readonly body: Buffer;
}

/** The page's files by their paths, read once. */
const readFiles = (): ReadonlyMap<string, PageFile> => {
  const files = new Map<string, PageFile>();
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const type = types[path.extname(name)];
    if (type === undefined) continue;
    const at = name === 'index.html' ? '/ops' : `/ops/${name.replaceAll(path.sep, '/')}`;
    files.set(at, { type, body: readFileSync(path.join(folder, name)) });
  }
  files.set('/ops/theme.css', { type: 'text/css; charset=utf-8', body: readFileSync(theme) });
  return files;
};

const isRead = (ctx: Context): boolean => ctx.method === 'GET' || ctx.method === 'HEAD';

const requireRead = (ctx: Context): void => {
  if (isRead(ctx)) return;
  throw new ServiceError('method_not_allowed', `${ctx.method} is not possible here.`, {
    headers: { Allow: 'HEAD, GET' },
  });
};

const secured = (ctx: Context, policy: string): void => {
  ctx.set('Content-Security-Policy', policy);
  ctx.set('Referrer-Policy', 'no-referrer');
};

/** Bull Board for operators; loaded on first use, and on the next one when that failed. */
export const boardPages = (deps: Pick<Deps, 'config'>, load: () => Promise<Middleware>): Middleware => {
  const board = cachedFor(Number.POSITIVE_INFINITY, load);
  return async (ctx, next) => {
    requireOperator(ctx, deps);
    requireRead(ctx);
    const show = await board();
    await show(ctx, next);
    secured(ctx, boardSecurity);
    ctx.set('Cache-Control', 'no-store');
  };
};

/**
 * The operators' page: its files at `/ops`, which hold nothing secret and ask `/ops/api` for everything; what is live
 * at
 * `/ops/api/live`; Bull Board below `/ops/bullmq`.
 */
export const opsPages = (deps: Deps, options: BoardOptions): Middleware => {
  const files = readFiles();
  const live = opsLive(deps);
  const board = boardPages(deps, async () => (await import('./bull-board.ts')).bullBoard(options));
  return async (ctx, next) => {
    const at = ctx.path === '/ops/' ? '/ops' : ctx.path;
    // The address that people remember; views stand behind the #.
    if (at === '/ops/mail') {
      requireRead(ctx);
      ctx.redirect('/ops#/mail');
      return;
    }
    const file = files.get(at);
    if (file !== undefined) {
      requireRead(ctx);
      secured(ctx, ownSecurity);
      ctx.set('Cache-Control', 'no-cache');
      ctx.type = file.type;
      ctx.body = file.body;
    } else if (at === '/ops/api/live' && ctx.method === 'GET') live(ctx);
    else if (at === '/ops/bullmq' || at.startsWith('/ops/bullmq/')) await board(ctx, next);
    else await next();
  };
};
