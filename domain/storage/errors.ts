import { DatabaseError } from 'pg';
import { withoutDatabaseName } from '#domain/database-servers/names.ts';
import { retryOnBacklog } from '#domain/database-servers/limits.ts';
import { CallerGone, DataError } from '#domain/data-api/errors.ts';
import { ServiceError, notFound } from '#lib/errors.ts';

export const noObject = (): ServiceError => notFound('object');
export const noBucket = (): ServiceError => notFound('bucket');

const alreadyExists = (what: string): ServiceError =>
  new ServiceError('conflict', `The ${what} exists already.`, {
    ...(what === 'object' && { hint: 'Send the header x-upsert: true to replace it.' }),
  });

export const notAllowed = (): ServiceError =>
  new ServiceError('forbidden', 'No policy allows this (row-level security).', {
    hint: 'Policies on storage.objects and storage.buckets say who may do what.',
  });

const foreignSchema = (): ServiceError =>
  new ServiceError('conflict', 'The project has a schema storage of its own, and so no files.', {
    hint: 'A new project has the platform’s own schema storage.',
  });

const parsed = (detail: string | undefined): unknown => {
  try {
    return JSON.parse(detail ?? 'null');
  } catch {
    return null;
  }
};

const full = ({ message, detail }: DatabaseError): ServiceError =>
  new ServiceError('plan_limit_exceeded', `The files of the project are at their limit: ${message}.`, {
    details: parsed(detail),
    hint: 'Delete files, or choose a larger plan. Operators set the limit with PLINTH_STORAGE_BYTES_FREE and _PRO.',
  });

const databaseFull = (): ServiceError =>
  new ServiceError('plan_limit_exceeded', 'The database of the project is full.', {
    hint: 'A larger plan holds more; deleting makes room, too.',
  });

/** Raised when replaced and deleted contents take so much that no more may be replaced (0054_kept_contents.sql). */
const keptFull = 'PLS05';

/** Whether the oldest of what is kept are to be deleted before their time. */
export const isKeptFull = (error: unknown): boolean => error instanceof DatabaseError && error.code === keptFull;

/** The platform's own refusals in the project's database (migrations/project/0030_storage.sql). */
const own: Readonly<Record<string, (error: DatabaseError) => ServiceError>> = {
  PLS01: noBucket,
  PLS02: full,
  PLS03: ({ message }) => new ServiceError('plan_limit_exceeded', `Too many buckets: ${message}.`),
  PLS04: () =>
    new ServiceError('conflict', 'The bucket is not empty.', { hint: 'Empty it first: POST …/bucket/{id}/empty.' }),
  [keptFull]: ({ message, detail }) =>
    new ServiceError('overloaded', `Too many bytes of the project wait for their removal: ${message}.`, {
      details: parsed(detail),
      hint: 'Replaced and deleted files are being removed. Try again in a minute.',
      headers: { 'Retry-After': '60' },
    }),
  PLL01: databaseFull,
  PLE01: () =>
    new ServiceError('overloaded', 'Too many events of the project wait to be taken.', { headers: retryOnBacklog }),
};

/** Relation, function or schema that is not there, by a message about schema storage: not the platform's. */
const isForeign = ({ code = '', message }: DatabaseError): boolean =>
  (['42P01', '42703', '3F000', '42883'].includes(code) || code === '42501') &&
  /schema "?storage"?|"storage\.|relation "(objects|buckets)" does not exist/.test(message);

const uniqueIndexes: Readonly<Record<string, string>> = {
  objects_bucket_id_name: 'object',
  buckets_pkey: 'bucket',
  buckets_name_key: 'bucket',
};

/** Classes that say that the server, and no policy of the project's, could not do it. */
const serverClasses = /^(08|40|53|57|58|XX)/;

const policyFailed = ({ message, code, hint }: DatabaseError): ServiceError =>
  new ServiceError('policy_failed', `A policy failed: ${withoutDatabaseName(message)}`, {
    details: { sqlstate: code },
    ...(hint !== undefined && { hint: withoutDatabaseName(hint) }),
  });

const explained = (error: DatabaseError): unknown => {
  const { code = '', message, constraint = '' } = error;
  const known = own[code];
  if (known !== undefined) return known(error);
  if (code === '23505' && uniqueIndexes[constraint] !== undefined) return alreadyExists(uniqueIndexes[constraint]);
  if (code === '42501' && message.includes('row-level security')) return notAllowed();
  if (isForeign(error)) return foreignSchema();
  return serverClasses.test(code) ? error : policyFailed(error);
};

/** Returns what a caller may see of a failure in the project's database; any other value as it is. */
export const toStorageError = (error: unknown): unknown => {
  if (error instanceof CallerGone) return error;
  if (error instanceof DataError) return new ServiceError('policy_failed', error.message);
  return error instanceof DatabaseError && error.severity === 'ERROR' ? explained(error) : error;
};
