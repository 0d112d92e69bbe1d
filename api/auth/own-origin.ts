import type { Context } from 'koa';
import { ServiceError } from '#lib/errors.ts';
import type { Deps } from '../deps.ts';

/*
 * A browser sends its cookies by itself, so what they open must be asked for by our own pages. SameSite=Strict says so
 * already, but takes every host below the same registrable domain for one's own.
 */

const originOf = (url: string): string | undefined => URL.parse(url)?.origin;

const refused = (message: string): ServiceError => new ServiceError('origin_refused', message);

/** @throws {ServiceError} `origin_refused` */
export const requireOwnOrigin = (ctx: Context, { config }: Pick<Deps, 'config'>): void => {
  const origin = originOf(ctx.get('origin'));
  const own = [`${ctx.protocol}://${ctx.host}`, config.PLINTH_BASE_URL ?? ''].map(originOf);
  if (origin !== undefined && own.includes(origin)) return;
  throw refused('This change did not come from one of the platform’s own pages.');
};

/** Whether a request changes something. */
export const changes = ({ method }: Context): boolean => method !== 'GET' && method !== 'HEAD';

/**
 * Streams and downloads are what another page could have a browser fetch without CORS.
 * @throws {ServiceError} `origin_refused`
 */
export const requireOwnFetch = (ctx: Context): void => {
  const site = ctx.get('sec-fetch-site');
  if (site === 'same-origin' || site === 'none') return;
  throw refused('This was not asked for by one of the platform’s own pages.');
};
