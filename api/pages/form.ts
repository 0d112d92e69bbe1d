import { z } from 'zod';
import { ServiceError } from '#lib/errors.ts';
import type { RawRequest } from '../raw-endpoint.ts';

const formType = /^application\/x-www-form-urlencoded\b/i;

/**
 * The fields of a form that a browser sends.
 * @throws {ServiceError} `unsupported_media_type`; `validation_failed`, in words for the person at the form
 */
export const readForm = async <Fields extends z.ZodType>(
  request: RawRequest,
  fields: Fields,
): Promise<z.output<Fields>> => {
  if (!formType.test(request.header('content-type'))) {
    throw new ServiceError('unsupported_media_type', 'This page takes what its own form sends.');
  }
  const given = Object.fromEntries(new URLSearchParams((await request.body()).toString()));
  const parsed = fields.safeParse(given);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ServiceError('validation_failed', issue?.message ?? 'Something is missing in the form.');
};

const wellFormed = (value: string): boolean => value.isWellFormed() && !value.includes('\0');

/** A new password, typed twice because the typed text is hidden. */
export const newPassword = {
  password: z
    .string({ error: 'Choose a password.' })
    .min(8, { error: 'The password needs at least 8 characters.' })
    .max(128, { error: 'The password may have at most 128 characters.' })
    .refine(wellFormed, { error: 'The password holds characters that cannot be used.' }),
  repeated: z.string({ error: 'Type the password a second time.' }),
};

export const bothAlike = ({ password, repeated }: { password: string; repeated: string }): boolean =>
  password === repeated;

export const notAlike = { error: 'The two passwords are not the same.' };

/** The message that a person reads when a form's request failed; an unexpected error is rethrown. */
export const messageOf = (error: unknown): string => {
  if (!(error instanceof ServiceError)) throw error;
  return error.message;
};
