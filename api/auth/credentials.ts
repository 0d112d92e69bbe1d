import type { Context } from 'koa';
import { bearerTokenOf } from '#lib/bearer.ts';
import { ServiceError } from '#lib/errors.ts';

/** The text after `Bearer`, if any. */
export const bearerOf = (ctx: Context): string | undefined => bearerTokenOf(ctx.get('authorization'));

/** A 401 with the challenge that the standard asks for. */
export const unauthenticated = (message: string, given: boolean): ServiceError =>
  new ServiceError('unauthenticated', message, {
    headers: { 'WWW-Authenticate': `Bearer realm="plinth"${given ? ', error="invalid_token"' : ''}` },
  });
