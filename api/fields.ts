import { z } from 'zod';

/** Text as people write it: well-formed Unicode without NUL (PostgreSQL cannot hold it). Lengths in UTF-16 units. */
export const text = (max: number, min = 0) =>
  z
    .string()
    .min(min)
    .max(max)
    .refine((value) => value.isWellFormed(), { error: 'must be well-formed Unicode' })
    .refine((value) => !value.includes('\0'), { error: 'must not contain NUL' });

export const name = text(100, 1)
  .refine((value) => value.trim() !== '', { error: 'must not be blank' })
  .refine((value) => !/\p{Cc}/u.test(value), { error: 'must be one line, without control characters' });

/** An e-mail address; line breaks and the like never pass, so it is safe in mail headers. */
export const email = z
  .string()
  .max(254)
  .trim()
  .pipe(z.email({ error: 'must be an e-mail address' }));

/** In small letters, as it is stored: some are compared as text. */
export const id = z.uuid({ error: 'must be a UUID' }).toLowerCase();

export const orgId = z.string().regex(/^[a-z][a-z0-9]{15}$/, { error: 'must be the id of an organization' });

export const role = z.enum(['viewer', 'developer', 'admin', 'owner']);

export const plan = z.enum(['free', 'pro', 'enterprise']);

/** A point in time: ISO 8601 UTC with milliseconds outside, a Date inside. */
export const instant = z.codec(z.iso.datetime(), z.date(), {
  decode: (value) => new Date(value),
  encode: (value) => value.toISOString(),
});

const digits = /^\d+$/;

/** A whole number in a query, in digits only: `1e1` and `0x10` are none. */
export const wholeNumber = (fallback: number, min: number, max: number) =>
  z.preprocess(
    (value) => (typeof value === 'string' && digits.test(value) ? Number(value) : value),
    z.int({ error: 'must be a whole number' }).min(min).max(max).default(fallback),
  );

/** `limit` and `offset` of a list; out of range is an error, never clamped. */
export const page = z.object({ limit: wholeNumber(50, 1, 200), offset: wholeNumber(0, 0, 1_000_000) });

/** Marks a field that is shown once: a replay of the same request leaves it out. */
export const shownOnce = <T extends z.ZodType>(schema: T): z.ZodOptional<T> =>
  schema.optional().meta({ shownOnce: true });

/** An object whose schema has a name in the OpenAPI document (`components.schemas`); names are unique. */
export const namedObject = <Fields extends z.core.$ZodLooseShape>(name: string, fields: Fields) =>
  z.object(fields).meta({ id: name });

/** The same for what callers send: unknown fields are refused. */
export const namedBody = <Fields extends z.core.$ZodLooseShape>(name: string, fields: Fields) =>
  z.strictObject(fields).meta({ id: name });
