import type { Context } from 'koa';
import type { Config } from '#lib/config.ts';

/** Scheme and host as the client sees them. */
export const baseUrlOf = (ctx: Context, config: Pick<Config, 'PLINTH_BASE_URL'>): string =>
  config.PLINTH_BASE_URL?.replace(/\/+$/, '') ?? `${ctx.protocol}://${ctx.host}`;
