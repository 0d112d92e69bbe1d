import type { Context } from 'koa';
import { looksLikeApiKey } from '#domain/projects/api-keys.ts';
import { bearerTokenOf } from '#lib/bearer.ts';
import { ServiceError } from '#lib/errors.ts';

/** The text after `Bearer`, if any. */
export const bearerOf = (ctx: Context): string | undefined => bearerTokenOf(ctx.get('authorization'));

/** A 401 with the challenge that the standard asks for. */
export const unauthenticated = (message: string, given: boolean): ServiceError =>
  new ServiceError('unauthenticated', message, {
    headers: { 'WWW-Authenticate': `Bearer realm="plinth"${given ? ', error="invalid_token"' : ''}` },
  });

/**
 * The API key of a request: `apikey`, `x-api-key` or `Authorization: Bearer`.
 * @throws {ServiceError} `unauthenticated` when there is none, or two that differ
 */
export const apiKeyOf = (ctx: Context): string => {
  const bearer = bearerOf(ctx);
  const given = [ctx.get('apikey'), ctx.get('x-api-key'), bearer ?? ''].filter((text) => text !== '');
  const [key] = given;
  if (key === undefined)
    throw unauthenticated('This call needs an API key (header apikey, x-api-key or Bearer).', false);
  if (given.some((other) => other !== key)) throw unauthenticated('The request carries two different keys.', true);
  if (!looksLikeApiKey(key)) throw unauthenticated('This is not an API key of a project.', true);
  return key;
};
