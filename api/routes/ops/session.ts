import { z } from 'zod';
import { maxOpsTokenLength } from '#lib/config.ts';
import { everyone, operator } from '../../access.ts';
import { endedCookie, isOpsToken, sessionCookie } from '../../auth/operator.ts';
import { unauthenticated } from '../../auth/credentials.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { text } from '../../fields.ts';

const isSecure = (baseUrl: string): boolean => baseUrl.startsWith('https:');

/** How a browser signs in to `/ops`. */
export const opsSessionEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/ops/session',
    area: 'operators',
    summary: 'Exchanges the operators’ token for a cookie of the page /ops, for twelve hours',
    access: everyone,
    rate: 'sign-in',
    body: z.strictObject({ token: text(maxOpsTokenLength, 1) }),
    status: 204,
    transaction: 'none',
    handle: ({ body }, { deps, baseUrl, setHeader }) => {
      const token = deps.config.PLINTH_OPS_TOKEN;
      if (token === undefined || !isOpsToken(body.token, token)) {
        throw unauthenticated('This is not the operators’ token.', true);
      }
      setHeader('Set-Cookie', sessionCookie(token, isSecure(baseUrl)));
      return Promise.resolve();
    },
  }),
  endpoint({
    method: 'delete',
    path: '/ops/session',
    area: 'operators',
    summary: 'Takes the cookie of the page /ops back',
    access: operator,
    transaction: 'none',
    handle: (_input, { baseUrl, setHeader }) => {
      setHeader('Set-Cookie', endedCookie(isSecure(baseUrl)));
      return Promise.resolve();
    },
  }),
];
