/**
 * Resumable uploads (tus 1.0) for an HTTP route. Read in this order: this file; `tus-store.ts`, where an upload ends;
 * `uploads.ts`, what a driver keeps of it; `disk-uploads.ts` and `s3-uploads.ts`; `upload-locks.ts`.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { getHashes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { type Locker, Server, type ServerOptions, type Upload } from '@tus/server';
import { ServiceError, notFound, toServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { chunksOf } from '#lib/object-store/body.ts';
import type { StoredBytes } from '#lib/object-store/object-store.ts';
import { TusStore } from './tus-store.ts';
import { UploadLocked } from './upload-locks.ts';
import {
  type BodyChecksum,
  ChecksumMismatch,
  type ResumableUploads,
  type UploadInfo,
  uploadLifeMs,
} from './uploads.ts';

const checksumAlgorithms = ['md5', 'sha1', 'sha256', 'sha512'].filter((name) => getHashes().includes(name));

/** The upload that a client requests. `metadata` is the client's; neither it nor `size` has been checked. */
export interface RequestedUpload {
  readonly id: string;
  readonly size: number;
  readonly metadata: Readonly<Record<string, string | null>>;
}

/** @typeParam Caller what the route knows of a request: its project, user and role */
export interface TusServerOptions<Caller> {
  readonly uploads: ResumableUploads;
  readonly locks: Locker;
  /** In bytes; a larger upload is refused at its creation with 413. */
  readonly maxSize: (caller: Caller) => Promise<number> | number;
  /**
   * Decides whether the upload may begin: policies, names, limits of bucket and project, and how many half-finished
   * uploads the project may have. Throws a ServiceError to refuse it.
   * @returns the key for the bytes, and what `authorize` and `onFinished` need to know later, as JSON of a few KB
   */
  readonly beforeCreate: (
    caller: Caller,
    upload: RequestedUpload,
  ) => Promise<{ readonly key: string; readonly context: Readonly<Record<string, unknown>> }>;
  /**
   * Decides whether a caller may go on with, see or end an upload: throws `notFound` for those of other projects and
   * users. It is asked at each request but the first.
   */
  readonly authorize: (caller: Caller, upload: UploadInfo) => Promise<void> | void;
  /**
   * Records the row. All bytes lie under `upload.key`, durably. It is called under the upload's lock, and again at the
   * client's next request when it fails or the process dies before it is recorded: two calls with one `upload.id` must
   * have the effect of one. The client gets its error.
   * @param finished.caller of the request that brought the end, as `authorize` has let it pass
   */
  readonly onFinished: (upload: UploadInfo, finished: StoredBytes & { readonly caller: Caller }) => Promise<void>;
  /** An upload was ended by its client, or has expired: what was reserved for it is free. Unfinished ones only. */
  readonly onRemoved?: (upload: UploadInfo) => Promise<void>;
  /** How long an upload may take from its creation on; `uploadLifeMs` unless given. */
  readonly lifeMs?: number;
  /** Sees errors that are faults of ours, or of Redis and the store. */
  readonly onFailure?: (error: unknown) => void;
}

interface TusRequest<Caller> {
  readonly caller: Caller;
  /** The URL of the collection, to which the client posts: `Location` is an id below it. */
  readonly url: string;
  /** Called before a body is read: answers `Expect: 100-continue`. */
  readonly invite?: () => void;
}

export interface TusServer<Caller> {
  /**
   * Answers one request (POST, PATCH, HEAD, DELETE, OPTIONS) in full. In Koa: `ctx.respond = false` before.
   * The body must not have been read. The route bounds the time of slow clients by destroying the request: what has
   * come is kept.
   */
  readonly handle: (request: IncomingMessage, response: ServerResponse, of: TusRequest<Caller>) => Promise<void>;
  /** Removes uploads whose time is over, for the sweep. @returns how many there were */
  readonly removeExpired: () => Promise<number>;
  /**
   * Ends an upload, whoever began it: a request that works on it is stopped first. One that has ended, or is not known,
   * stays as it is.
   * @throws {ServiceError} `conflict` when that request does not stop
   */
  readonly cancel: (id: string) => Promise<void>;
}

interface Current<Caller> extends TusRequest<Caller> {
  readonly request: IncomingMessage;
  readonly checksum?: BodyChecksum;
  created?: { readonly key: string; readonly context: Readonly<Record<string, unknown>> };
}

/** Answers an error in the platform's form; 460 is tus's own status for a wrong checksum. */
const errorAnswer = (status: number, { code, message, details, hint }: ServiceError) => ({
  status_code: status,
  body: JSON.stringify({ code, message, details, hint }),
});

const tooLarge = new ServiceError('payload_too_large', 'The upload is larger than it may be.');

const refusals: Readonly<Record<number, ServiceError>> = {
  403: new ServiceError('validation_failed', 'The request lacks a header that tus needs, or has a wrong one.'),
  404: notFound('upload'),
  409: new ServiceError('conflict', 'Upload-Offset is not where the upload stands. Ask for it with HEAD.'),
  413: tooLarge,
  501: new ServiceError('not_supported', 'This extension of tus is not supported.'),
};

const isRefusal = (error: unknown): error is { status_code: number; body: string } =>
  typeof error === 'object' && error !== null && 'status_code' in error && 'body' in error;

const refusalAnswer = ({ status_code: status, body }: { status_code: number; body: string }) =>
  errorAnswer(status, refusals[status] ?? new ServiceError('validation_failed', body.trim()));

const locked = new ServiceError('conflict', 'Another request works on this upload. Try again shortly.');
const mismatch = new ServiceError('validation_failed', 'The body is not what Upload-Checksum says. Nothing was kept.');

const checksumOf = (header: string | string[] | undefined): BodyChecksum | undefined => {
  if (header === undefined) return undefined;
  const [algorithm = '', digest = ''] = String(header).split(' ');
  if (!checksumAlgorithms.includes(algorithm)) {
    throw new ServiceError('validation_failed', `Upload-Checksum: use one of ${checksumAlgorithms.join(', ')}.`);
  }
  return { algorithm, digest: Buffer.from(digest, 'base64') };
};

const idForm = /\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\/?$/;

const idIn = (url: string): string | undefined => idForm.exec(new URL(url, 'http://local').pathname)?.[1];

const infoOf = (upload: RequestedUpload, of: Current<unknown>['created'], lifeMs: number): UploadInfo => {
  if (of === undefined) throw new Error('an upload was created without being allowed');
  const createdAt = Date.now();
  const { id, size, metadata } = upload;
  return {
    id,
    size,
    metadata: { ...metadata },
    key: of.key,
    context: { ...of.context },
    createdAt,
    expiresAt: createdAt + lifeMs,
  };
};

const requestedOf = ({
  id,
  size,
  metadata,
}: {
  id: string;
  size?: number | undefined;
  metadata?: RequestedUpload['metadata'] | undefined;
}): RequestedUpload => ({
  id,
  size: size ?? 0,
  metadata: metadata ?? {},
});

/** The library finds out once the upload is made. @throws {ServiceError} `payload_too_large` */
const requireFits = ({ headers }: IncomingMessage, { size = 0 }: Pick<Upload, 'size'>): void => {
  if (headers['content-type'] !== 'application/offset+octet-stream') return;
  if (Number(headers['content-length'] ?? 0) > size) throw tooLarge;
};

const serverOptions = <Caller>(
  options: TusServerOptions<Caller>,
  current: () => Current<Caller>,
): Omit<ServerOptions, 'locker'> => ({
  path: '/',
  maxSize: () => options.maxSize(current().caller),
  namingFunction: () => newId(),
  generateUrl: (_, { id }) => `${current().url}/${id}`,
  getFileIdFromRequest: (request) => idIn(request.url),
  allowedHeaders: ['Upload-Checksum', 'apikey', 'x-client-info', 'x-upsert'],
  exposedHeaders: ['Upload-Expires', 'Tus-Checksum-Algorithm'],
  disableTerminationForFinishedUploads: true,
  // A connection whose client is gone has nothing more to give.
  lockDrainTimeout: 500,
  onUploadCreate: async (_, upload) => {
    requireFits(current().request, upload);
    current().created = await options.beforeCreate(current().caller, requestedOf(upload));
    return {};
  },
  onIncomingRequest: async (request, id) => {
    if (request.method === 'POST') return;
    const info = await options.uploads.info(id);
    if (info === null) throw notFound('upload');
    await options.authorize(current().caller, info);
  },
  onResponseError: (_, error) => {
    if (error instanceof ChecksumMismatch) return errorAnswer(460, mismatch);
    if (error instanceof UploadLocked) return errorAnswer(423, locked);
    if (isRefusal(error)) return refusalAnswer(error);
    const failure = toServiceError(error);
    if (failure.status >= 500) options.onFailure?.(error);
    return errorAnswer(failure.status, failure);
  },
});

const removeExpired = async <Caller>(options: TusServerOptions<Caller>): Promise<number> => {
  let count = 0;
  for await (const info of options.uploads.expired(Date.now())) {
    await options.uploads.remove(info.id);
    if (info.finished !== true) await options.onRemoved?.(info);
    count += 1;
  }
  return count;
};

/**
 * The bytes of a body until it ends, its client is gone, or another request wants the upload: what came is kept.
 * @throws {ServiceError} `payload_too_large`
 */
async function* arriving(body: Readable, maxBytes: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const chunk of chunksOf(body, signal)) {
      bytes += chunk.length;
      if (bytes > maxBytes) throw tooLarge;
      yield chunk;
    }
  } catch (error) {
    if (error === tooLarge) throw error;
  }
}

/** The library would pass each chunk on by two web streams and two pipes, which cost more than hash and disk. */
const takeBodies = (server: Server, append: (id: string, maxBytes: number, signal: AbortSignal) => Promise<number>) => {
  // oxlint-disable-next-line max-params -- the library's method
  const writeToStore = (_body: null, { id }: Upload, maxBytes: number, { signal }: { readonly signal: AbortSignal }) =>
    append(id, maxBytes, signal);
  for (const handler of [server.handlers.POST, server.handlers.PATCH]) Object.assign(handler, { writeToStore });
};

const overriding = new Set(['PATCH', 'DELETE', 'HEAD']);

/** A POST to an upload is meant for it: for clients that cannot send PATCH, and name another method if any. */
const methodOf = ({ method = '', url = '', headers }: IncomingMessage): string => {
  if (method !== 'POST' || idIn(url) === undefined) return method;
  const meant = String(headers['x-http-method-override'] ?? 'PATCH').toUpperCase();
  return overriding.has(meant) ? meant : method;
};

/** The request as the library wants it, without its body. By `runtime` it learns when the client is gone. */
const webRequest = (req: IncomingMessage, res: ServerResponse): Request => {
  const headers = new Headers();
  for (const [name, value] of Object.entries(req.headers)) headers.set(name, String(value));
  const request = new Request(new URL(req.url ?? '/', 'http://local'), { method: methodOf(req), headers });
  return Object.assign(request, { runtime: { node: { req, res } } });
};

const send = async ({ complete }: IncomingMessage, response: ServerResponse, answer: Response): Promise<void> => {
  const body = Buffer.from(await answer.arrayBuffer());
  // The rest of a body is not waited for.
  if (!complete) response.setHeader('Connection', 'close');
  response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(body);
};

const cancel = async <Caller>({ locks, uploads, onRemoved }: TusServerOptions<Caller>, id: string): Promise<void> => {
  const lock = locks.newLock(id);
  // A removal is over before anybody could ask it to stop.
  await lock
    .lock(new AbortController().signal, () => {})
    .catch((error: unknown) => {
      throw error instanceof UploadLocked ? locked : error;
    });
  try {
    const info = await uploads.info(id);
    if (info === null || info.finished === true) return;
    await uploads.remove(id);
    await onRemoved?.(info);
  } finally {
    await lock.unlock();
  }
};

const refuse = (response: ServerResponse, error: ServiceError): void => {
  const { status_code: status, body } = errorAnswer(error.status, error);
  response.writeHead(status, { 'Tus-Resumable': '1.0.0', 'Content-Type': 'application/json' }).end(body);
};

/** Builds the handler of resumable uploads. It opens no connection. */
export const createTusServer = <Caller>(options: TusServerOptions<Caller>): TusServer<Caller> => {
  const requests = new AsyncLocalStorage<Current<Caller>>();
  const current = (): Current<Caller> => {
    const now = requests.getStore();
    if (now === undefined) throw new Error('outside a request');
    return now;
  };
  const lifeMs = options.lifeMs ?? uploadLifeMs;
  const datastore = new TusStore({
    uploads: options.uploads,
    newInfo: (upload) => infoOf(requestedOf(upload), current().created, lifeMs),
    checksum: () => current().checksum,
    onFinished: (upload, stored) => options.onFinished(upload, { ...stored, caller: current().caller }),
    onRemoved: async (upload) => options.onRemoved?.(upload),
    lifeMs,
  });
  const server = new Server({ ...serverOptions(options, current), locker: options.locks, datastore });
  takeBodies(server, (id, maxBytes, signal) => {
    const { request, invite } = current();
    invite?.();
    return datastore.append(id, arriving(request, maxBytes, signal));
  });
  return {
    handle: async (request, response, of) => {
      response.setHeader('Tus-Checksum-Algorithm', checksumAlgorithms.join(','));
      try {
        const checksum = checksumOf(request.headers['upload-checksum']);
        const now: Current<Caller> = { ...of, request, ...(checksum && { checksum }) };
        const answer = await requests.run(now, () => server.handleWeb(webRequest(request, response)));
        await send(request, response, answer);
      } catch (error) {
        if (!(error instanceof ServiceError) || response.headersSent) throw error;
        refuse(response, error);
      }
    },
    removeExpired: () => removeExpired(options),
    cancel: (id) => cancel(options, id),
  };
};
