import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Context } from 'koa';
import { hashToken } from '#lib/ids.ts';
import type { Deps } from '../deps.ts';
import { bearerOf, unauthenticated } from './credentials.ts';
import { changes, requireOwnOrigin } from './own-origin.ts';

/**
 * Operators present their token as Bearer. In a browser they exchange it for a cookie that scripts cannot read and that
 * does not hold the token: when it ends, and a signature over that with a key derived from the token. So every API
 * process knows it, nothing is stored, and a new token ends all sessions.
 */
const operatorCookie = 'plinth_ops';

const sessionSeconds = 12 * 3600;

/** Compares in constant time; false when operators have no token. */
export const isOpsToken = (given: string | undefined, token: string | undefined): boolean =>
  given !== undefined && token !== undefined && timingSafeEqual(hashToken(given), hashToken(token));

const signatureOf = (claim: string, token: string): string =>
  createHmac('sha256', `plinth operator session ${token}`).update(claim).digest('base64url');

const newSession = (token: string): string => {
  const claim = `${Math.floor(Date.now() / 1000) + sessionSeconds}.${randomBytes(16).toString('base64url')}`;
  return `${claim}.${signatureOf(claim, token)}`;
};

/** Whether a cookie's value is a session of that token which has not ended. */
export const isOperatorSession = (value: string | undefined, token: string | undefined): boolean => {
  const [ends = '', nonce = '', signature = ''] = (value ?? '').split('.');
  if (token === undefined || !/^\d{1,12}$/.test(ends)) return false;
  const signed = timingSafeEqual(hashToken(signature), hashToken(signatureOf(`${ends}.${nonce}`, token)));
  return signed && Number(ends) * 1000 > Date.now();
};

const cookie = (value: string, seconds: number, secure: boolean): string =>
  `${operatorCookie}=${value}; Path=/ops; HttpOnly; SameSite=Strict; Max-Age=${seconds}${secure ? '; Secure' : ''}`;

/** The `Set-Cookie` of a new session. */
export const sessionCookie = (token: string, secure: boolean): string =>
  cookie(newSession(token), sessionSeconds, secure);

/** The `Set-Cookie` that ends the browser's session. */
export const endedCookie = (secure: boolean): string => cookie('', 0, secure);

/**
 * Lets operators pass: by Bearer, else by the cookie of the page.
 * @throws {ServiceError} `unauthenticated`; `origin_refused` for a change that another page asks for
 */
export const requireOperator = (ctx: Context, deps: Pick<Deps, 'config'>): void => {
  const token = deps.config.PLINTH_OPS_TOKEN;
  const given = bearerOf(ctx);
  if (isOpsToken(given, token)) return;
  if (ctx.get('authorization') === '' && isOperatorSession(ctx.cookies.get(operatorCookie), token)) {
    if (changes(ctx)) requireOwnOrigin(ctx, deps);
    return;
  }
  throw unauthenticated('This call needs the operators’ token (Authorization: Bearer).', given !== undefined);
};
