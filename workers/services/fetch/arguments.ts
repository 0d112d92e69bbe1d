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
