import type { Context } from 'koa';
import { cookieDays } from '#domain/accounts/sign-ins.ts';
import type { Config } from '#lib/config.ts';
import type { BaseCall } from '../call.ts';
import type { Deps } from '../deps.ts';
import type { Endpoint } from '../endpoint.ts';
import { baseUrlOf } from '../http/base-url.ts';
import { changes, requireOwnFetch, requireOwnOrigin } from './own-origin.ts';

const isSecure = (baseUrl: string): boolean => baseUrl.startsWith('https:');

/**
 * The cookie of the dashboard: a browser's scripts cannot read it, and it opens management endpoints only. With TLS its
 * prefix makes browsers refuse one that another host below the same domain sets, or a page without TLS; only that name is
 * read then.
 */
const nameOf = (baseUrl: string): string => (isSecure(baseUrl) ? '__Host-plinth_session' : 'plinth_session');

const cookie = (value: string, seconds: number, baseUrl: string): string =>
  `${nameOf(baseUrl)}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${isSecure(baseUrl) ? '; Secure' : ''}`;

/** Undefined: none came. */
export const sessionCookieOf = (ctx: Context, config: Pick<Config, 'PLINTH_BASE_URL'>): string | undefined =>
  ctx.cookies.get(nameOf(baseUrlOf(ctx, config))) || undefined;

/** The server ends it sooner, when nobody uses it. */
export const setSessionCookie = (
  { setHeader, baseUrl }: Pick<BaseCall, 'setHeader' | 'baseUrl'>,
  value: string,
): void => setHeader('Set-Cookie', cookie(value, cookieDays * 24 * 3600, baseUrl));

export const endSessionCookie = ({ setHeader, baseUrl }: Pick<BaseCall, 'setHeader' | 'baseUrl'>): void =>
  setHeader('Set-Cookie', cookie('', 0, baseUrl));

/**
 * Refuses what another page made a browser ask for.
 * @throws {ServiceError} `origin_refused`
 */
export const checkCookieUse = (
  { mediaType }: Pick<Endpoint, 'mediaType'>,
  ctx: Context,
  deps: Pick<Deps, 'config'>,
): void => {
  if (changes(ctx)) requireOwnOrigin(ctx, deps);
  else if (mediaType !== 'application/json' || ctx.get('accept').toLowerCase().includes('text/event-stream')) {
    requireOwnFetch(ctx);
  }
};
