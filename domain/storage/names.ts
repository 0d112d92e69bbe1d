import { ServiceError } from '#lib/errors.ts';

export const maxNameBytes = 1024;

/** Paths of the API below `object/` would hide buckets of these names. */
const reservedBuckets: ReadonlySet<string> = new Set([
  'authenticated',
  'copy',
  'info',
  'list',
  'list-v2',
  'move',
  'public',
  'sign',
  'upload',
]);

const bucketNamePattern = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/;

/** Returns the problem of a bucket's name, null when there is none. */
const bucketFault = (name: string): string | null => {
  if (!bucketNamePattern.test(name)) return 'must have 1 to 100 letters, digits and . _ -, and begin with no . or -';
  return reservedBuckets.has(name) ? 'is a word of the API' : null;
};

// oxlint-disable-next-line no-control-regex -- they are what is looked for
const control = /[\u0000-\u001f\u007f]/;

/**
 * Returns the problem of an object's name, null when there is none. Names are kept byte for byte: nothing is
 * normalized, so that no two names are ever one object.
 */
const nameFault = (name: string): string | null => {
  if (name === '') return 'must not be empty';
  if (!name.isWellFormed()) return 'is not valid Unicode';
  if (Buffer.byteLength(name) > maxNameBytes) return `must have at most ${maxNameBytes} bytes`;
  if (control.test(name)) return 'must not contain NUL or other control characters';
  const parts = name.split('/');
  if (parts.includes('')) return 'must not begin or end with /, or contain //';
  return parts.some((part) => part === '.' || part === '..') ? 'must not have . or .. as a part' : null;
};

const invalid = (field: string, message: string): ServiceError =>
  new ServiceError('invalid_key', `${field} ${message}.`, { details: [{ path: field, message }] });

/**
 * The name, when it can be one.
 * @throws {ServiceError} `invalid_key`
 */
export const requireName = (name: string, field = 'name'): string => {
  const fault = nameFault(name);
  if (fault !== null) throw invalid(field, fault);
  return name;
};

/** @throws {ServiceError} `invalid_key` */
export const requireBucketName = (name: string, field = 'name'): string => {
  const fault = bucketFault(name);
  if (fault !== null) throw invalid(field, fault);
  return name;
};

/**
 * Decodes a part of a path.
 * @throws {ServiceError} `invalid_key` when a percent escape is malformed, or the bytes are no UTF-8
 */
export const decodeEscapes = (raw: string, field = 'name'): string => {
  try {
    return decodeURIComponent(raw);
  } catch {
    throw invalid(field, 'has a malformed percent escape');
  }
};

/** Where the bytes of a content lie. */
export const keyOf = (projectId: string, version: string): string => `${projectId}/${version}`;
