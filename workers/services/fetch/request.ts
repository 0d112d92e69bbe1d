import { Request } from 'undici';
import { z } from 'zod';
import { CallFault } from '../../runtimes/runtime.ts';

export const maxBodyBytes = 10 * 1024 * 1024;

// In base64 four characters are three bytes.
const maxBodyLength = Math.ceil(maxBodyBytes / 3) * 4;
const id = z.int();
const maxHeaders = 1000;

const isPair = (value: unknown): value is [string, string] =>
  Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === 'string');

/** Checked by hand, and counted first: for a list with a million mistakes zod would report each. */
const headers = z
  .custom<unknown[]>(Array.isArray, 'headers must be pairs of name and value')
  .refine((pairs) => pairs.length <= maxHeaders, { error: `more than ${maxHeaders} headers`, abort: true })
  .pipe(
    z.custom<[string, string][]>(
      (pairs) => (pairs as unknown[]).every(isPair),
      'headers must be pairs of name and value',
    ),
  );

export const fetchArgs = z.object({
  id,
  url: z.string({ error: 'the URL must be text' }),
  method: z.string({ error: 'the method must be text' }).default('GET'),
  headers: headers.default([]),
  body: z
    .base64({ error: 'the body must be base64' })
    .max(maxBodyLength, `the body is larger than ${maxBodyBytes / 1024 / 1024} MB`)
    .nullish(),
  redirect: z.enum(['follow', 'manual', 'error'], 'redirect is follow, manual or error').default('follow'),
});

export const bodyArgs = z.object({ id });

/** @throws {CallFault} */
export const parseFetchArgs = <Schema extends z.ZodType>(schema: Schema, args: unknown): z.output<Schema> => {
  const parsed = schema.safeParse(args);
  if (parsed.success) return parsed.data;
  throw new CallFault('TypeError', `fetch failed: ${parsed.error.issues[0]?.message ?? 'the request is not valid'}.`);
};

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
