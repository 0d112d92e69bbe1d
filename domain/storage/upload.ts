import type { Readable } from 'node:stream';
import { DatabaseError } from 'pg';
import { abortSignalOf } from '#lib/disconnection.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { TooLargeError } from '#lib/object-store/errors.ts';
import { noBucket, noObject, notAllowed } from './errors.ts';
import { type FileLimit, fileLimit, fileTooLarge, storageLimits } from './limits.ts';
import { keyOf } from './names.ts';
import { type StorageCall, type StorageDeps, asPlatform, ownerOf } from './storage.ts';
import { type Bucket, findBucket, putNew, replace, tryPut } from './store.ts';
import type { Owner, Ticket } from './tickets.ts';

/** `insert` fails when the object exists, `update` when it does not. */
export type UploadMode = 'insert' | 'upsert' | 'update';

/** The facts of an upload that are known before its bytes arrive. */
export interface UploadRequest {
  readonly bucket: string;
  readonly name: string;
  readonly mode: UploadMode;
  readonly mimeType: string;
  readonly cacheControl: string;
  readonly userMetadata: Readonly<Record<string, unknown>>;
  /** Bytes, where the client says how many; null: it does not. */
  readonly declaredSize: number | null;
  /** No more bytes than that can come; left out: `declaredSize`. */
  readonly atMost?: number;
  /** The owner of the object; left out: the caller. */
  readonly owner?: Owner;
}

export interface Uploaded {
  readonly id: string;
  readonly bucket: string;
  readonly name: string;
  readonly version: string;
  readonly etag: string;
  readonly size: number;
}

/** `image/*` allows every picture. */
const isAllowedType = (type: string, allowed: readonly string[] | null): boolean => {
  if (allowed === null || allowed.length === 0) return true;
  const bare = type.replace(/;.*/s, '').trim().toLowerCase();
  return allowed.some(
    (one) => one === '*/*' || one === bare || (one.endsWith('/*') && bare.startsWith(one.slice(0, -1))),
  );
};

const requireType = (type: string, { allowed_mime_types: allowed }: Bucket): void => {
  if (isAllowedType(type, allowed)) return;
  throw new ServiceError('unsupported_media_type', `The bucket does not take files of type ${type}.`, {
    details: { allowed_mime_types: allowed },
  });
};

/**
 * The bucket that an upload goes to, and how large the file may be.
 * @throws {ServiceError} `not_found`, `unsupported_media_type`, `payload_too_large` by what the client declares
 */
export const checkUpload = async (
  deps: StorageDeps,
  call: StorageCall,
  request: Pick<UploadRequest, 'bucket' | 'mimeType' | 'declaredSize'>,
): Promise<FileLimit> => {
  const bucket = await findBucket(deps, asPlatform(call), request.bucket);
  if (bucket === null) throw noBucket();
  requireType(request.mimeType, bucket);
  const limit = fileLimit(deps.config, call.project.plan, bucket.file_size_limit);
  if ((request.declaredSize ?? 0) > limit.bytes) throw fileTooLarge(limit);
  return limit;
};

type PutTicket = Extract<Ticket, { op: 'put' }>;

interface Content {
  readonly version: string;
  readonly size: number;
  readonly etag: string;
}

const ticketOf = (
  { config }: StorageDeps,
  call: StorageCall,
  request: UploadRequest,
  { version, size, etag }: Content,
): PutTicket => ({
  op: 'put',
  id: newId(),
  bucket: request.bucket,
  name: request.name,
  version,
  size,
  etag,
  mime_type: request.mimeType,
  cache_control: request.cacheControl,
  user_metadata: request.userMetadata,
  max_bytes: storageLimits(config, call.project.plan).total,
  ...(request.owner ?? ownerOf(call)),
});

const noContent = '0'.repeat(64);

/**
 * Whether the caller may write that object, asked before its bytes are taken: a stranger could fill the disk otherwise.
 * @throws {ServiceError} `forbidden`, `conflict`, `not_found`, `plan_limit_exceeded`
 */
export const requireUpload = async (deps: StorageDeps, call: StorageCall, request: UploadRequest): Promise<void> => {
  const content = { version: newId(), size: request.declaredSize ?? 0, etag: noContent };
  const found = await tryPut(deps, call, ticketOf(deps, call, request, content), request.mode);
  if (request.mode === 'update' && !found) throw noObject();
};

/** When two uploads put one name at the same time, the one that loses finds the other's row at its next attempt. */
const putAttempts = 3;

const isConflict = (error: unknown): boolean => error instanceof ServiceError && error.code === 'conflict';

const upsert = async (deps: StorageDeps, call: StorageCall, ticket: PutTicket): Promise<boolean> => {
  for (let attempt = 0; attempt < putAttempts; attempt += 1) {
    if (await replace(deps, call, ticket)) return true;
    try {
      await putNew(deps, call, ticket);
      return false;
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }
  // There is one, and no policy lets the caller replace it.
  throw notAllowed();
};

/** @returns whether older content was replaced */
const putRow = async (deps: StorageDeps, call: StorageCall, ticket: PutTicket, mode: UploadMode): Promise<boolean> => {
  if (mode === 'upsert') return upsert(deps, call, ticket);
  if (mode === 'insert') {
    await putNew(deps, call, ticket);
    return false;
  }
  if (await replace(deps, call, ticket)) return true;
  throw noObject();
};

/** The row was surely not written; otherwise the sweep finds out. */
const isRefused = (error: unknown): boolean =>
  error instanceof ServiceError || (error instanceof DatabaseError && error.severity === 'ERROR');

/**
 * Writes the row of bytes that are stored, or deletes them when it is refused.
 * @param content.keepsBytes a refused row may be tried again: the sweep deletes them
 * @throws {ServiceError} as `requireUpload`
 */
export const commitUpload = async (
  deps: StorageDeps,
  call: StorageCall,
  request: UploadRequest,
  { keepsBytes = false, ...content }: Content & { readonly keepsBytes?: boolean },
): Promise<Uploaded> => {
  const { project } = call;
  const ticket = ticketOf(deps, call, request, content);
  try {
    if (await putRow(deps, call, ticket, request.mode)) deps.markRemoved(project.id);
  } catch (error) {
    if (!keepsBytes && isRefused(error))
      await deps.bytes.remove([keyOf(project.id, content.version)]).catch(() => undefined);
    throw error;
  }
  deps.markDirty(project.id);
  return { id: ticket.id, bucket: request.bucket, name: request.name, ...content };
};

/** Policies are checked before the bytes are taken when more than this may come. */
const checkedFirstBytes = 256 * 1024;

/**
 * Takes the content of an object: the bytes first, then the row, in which policies and limits have the last word.
 * @throws {ServiceError} `not_found`, `forbidden`, `conflict`, `payload_too_large`, `plan_limit_exceeded`,
 * `unsupported_media_type`
 */
export const upload = async (
  deps: StorageDeps,
  call: StorageCall,
  request: UploadRequest,
  body: (limit: FileLimit) => Readable,
): Promise<Uploaded> => {
  const limit = await checkUpload(deps, call, request);
  const { declaredSize, atMost = declaredSize } = request;
  if (atMost === null || atMost > checkedFirstBytes) await requireUpload(deps, call, request);
  const version = newId();
  try {
    const { size, sha256 } = await deps.bytes.write(keyOf(call.project.id, version), body(limit), {
      maxBytes: limit.bytes,
      signal: call.signal instanceof AbortSignal ? call.signal : abortSignalOf(call.signal),
      ...(declaredSize !== null && { size: declaredSize }),
    });
    return await commitUpload(deps, call, request, { version, size, etag: sha256 });
  } catch (error) {
    throw error instanceof TooLargeError ? fileTooLarge(limit) : error;
  }
};
