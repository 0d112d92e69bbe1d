import type { Middleware } from 'koa';
import { cachedFor } from '#lib/cached-for.ts';
import { requireOperator } from '#api/auth/operator.ts';
import type { Deps } from '#api/deps.ts';
import type { ReadBuild } from '#api/web/build.ts';
import { opsPage, requireRead } from '#api/web/pages.ts';
import type { BoardOptions } from './bull-board.ts';
import { opsLive } from './live.ts';

// Bull Board styles itself inline, names its base, and asks for a font that it does without.
const boardSecurity =
  "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; font-src 'self'; frame-ancestors 'none'; base-uri 'self'";

/** Bull Board for operators; loaded on first use, and on the next one when that failed. */
export const boardPages = (deps: Pick<Deps, 'config'>, load: () => Promise<Middleware>): Middleware => {
  const board = cachedFor(Number.POSITIVE_INFINITY, load);
  return async (ctx, next) => {
    requireOperator(ctx, deps);
    requireRead(ctx);
    const show = await board();
    await show(ctx, next);
    ctx.set('Content-Security-Policy', boardSecurity);
    ctx.set('Referrer-Policy', 'no-referrer');
    ctx.set('Cache-Control', 'no-store');
  };
};

/**
 * Everything at `/ops` that is no endpoint: the page, which holds nothing secret and asks `/ops/api` for everything; what
 * is live at `/ops/api/live`; Bull Board below `/ops/bullmq`.
 */
export const opsPages = (deps: Deps, { build, ...options }: BoardOptions & { build: ReadBuild }): Middleware => {
  const live = opsLive(deps);
  const page = opsPage(build);
  const board = boardPages(deps, async () => (await import('./bull-board.ts')).bullBoard(options));
  return async (ctx, next) => {
    if (ctx.path === '/ops/api/live' && ctx.method === 'GET') live(ctx);
    else if (ctx.path === '/ops/bullmq' || ctx.path.startsWith('/ops/bullmq/')) await board(ctx, next);
    else await page(ctx, next);
  };
};
