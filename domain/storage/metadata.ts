import { ServiceError } from '#lib/errors.ts';

const invalid = (field: string, message: string, cause?: unknown): ServiceError =>
  new ServiceError('validation_failed', `${field} ${message}.`, { details: [{ path: field, message }], cause });

export const maxMetadataBytes = 32 * 1024;

/** PostgreSQL's jsonb holds neither NUL nor lone surrogates. */
const isUnstorable = (value: unknown): boolean => {
  if (typeof value === 'string') return value.includes('\0') || !value.isWellFormed();
  if (typeof value !== 'object' || value === null) return false;
  return Object.entries(value).some(([name, part]) => isUnstorable(name) || isUnstorable(part));
};

/** @throws {ServiceError} `validation_failed` */
export const parseMetadata = (field: string, text: string): Readonly<Record<string, unknown>> => {
  if (text === '') return {};
  if (Buffer.byteLength(text) > maxMetadataBytes) throw invalid(field, `must have at most ${maxMetadataBytes} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(text);
    if (isUnstorable(value)) throw invalid(field, 'must not contain NUL or lone surrogates');
  } catch (error) {
    throw error instanceof ServiceError ? error : invalid(field, 'must be JSON', error);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid(field, 'must be an object');
  return value as Record<string, unknown>;
};
