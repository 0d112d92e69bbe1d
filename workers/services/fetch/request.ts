import { Request } from 'undici';
import type { z } from 'zod';
import { CallFault } from '../../runtimes/runtime.ts';
import { type fetchArgs, maxBodyBytes } from './arguments.ts';

const userAgent = 'plinth-functions/1';

// Headers that belong to the connection, which is ours: Fetch lists them as forbidden and omits them silently.
const ours = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

export const failed = (why: string): CallFault => new CallFault('TypeError', `fetch failed: ${why}`);

const headersOf = (given: readonly (readonly [string, string])[]): [string, string][] => {
  const headers = given
    .filter(([name]) => !ours.has(name.toLowerCase()))
    .map(([name, value]): [string, string] => [name, value]);
  const isNamed = headers.some(([name]) => name.toLowerCase() === 'user-agent');
  return isNamed ? headers : [...headers, ['user-agent', userAgent]];
};

/**
 * The request as its author wants it, with nothing of ours but the name of who sends it.
 * @throws {CallFault} when it is not a request that HTTP allows
 */
export const requestOf = (
  url: URL,
  { method, headers, body, redirect }: z.output<typeof fetchArgs>,
  signal: AbortSignal,
): Request => {
  const bytes = body === null || body === undefined ? null : Buffer.from(body, 'base64');
  if (bytes !== null && bytes.length > maxBodyBytes) {
    throw failed(`the body is larger than ${maxBodyBytes / 1024 / 1024} MB.`);
  }
  try {
    return new Request(url, { method, headers: headersOf(headers), body: bytes, redirect, signal });
  } catch (error) {
    // About what the author wrote, and nothing else: there was no connection yet.
    throw failed(error instanceof Error ? error.message : 'the request is not valid.');
  }
};
