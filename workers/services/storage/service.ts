import { PassThrough, type Readable } from 'node:stream';
import { z } from 'zod';
import type { Project } from '#domain/projects/store.ts';
import { list } from '#domain/storage/list.ts';
import { keyOf, requireBucketName, requireName } from '#domain/storage/names.ts';
import { remove, requireObject } from '#domain/storage/objects.ts';
import { cacheControl, mediaType } from '#domain/storage/serving.ts';
import { signGrant, urlOf } from '#domain/storage/signed-urls.ts';
import { type StorageCall, type StorageDeps, asPlatform } from '#domain/storage/storage.ts';
import { upload } from '#domain/storage/upload.ts';
import { ServiceError, toServiceError } from '#lib/errors.ts';
import { lengthFirst } from '#lib/length-first.ts';
import { CallFault } from '../../runtimes/runtime.ts';
import type { OpenService } from '../services.ts';

export interface StorageServiceDeps {
  readonly storage: StorageDeps;
  readonly findProject: (id: string) => Promise<Project | undefined>;
  /** The address of a project's API. */
  readonly restUrlOf: (ref: string) => string;
}

/** One call carries no more of a file than this. */
const pieceBytes = 256 * 1024;
const maxOpen = 16;
const id = z.int();
const place = { bucket: z.string().nullish(), name: z.string({ error: 'the path must be text' }) };
const seconds = z
  .int('expiresIn must be a whole number of seconds')
  .min(1)
  .max(366 * 24 * 3600);

const schemas = {
  begin: z.object({
    id,
    ...place,
    contentType: z.string().nullish(),
    cacheControl: z.string().nullish(),
    upsert: z.boolean().nullish(),
  }),
  write: z.object({ id, chunk: z.base64().max(Math.ceil(pieceBytes / 3) * 4) }),
  one: z.object({ id }),
  open: z.object({ id, ...place }),
  list: z.object({
    bucket: z.string().nullish(),
    prefix: z.string().nullish(),
    limit: z.int().min(1).max(1000).nullish(),
    offset: z.int().min(0).nullish(),
    search: z.string().nullish(),
  }),
  remove: z.object({ bucket: z.string().nullish(), names: z.array(z.string()).max(1000) }),
  signedUrl: z.object({ ...place, expiresIn: seconds }),
};

const parse = <Schema extends z.ZodType>(schema: Schema, args: unknown): z.output<Schema> => {
  const parsed = lengthFirst(schema).safeParse(args);
  if (parsed.success) return parsed.data;
  throw new CallFault('TypeError', `storage: ${parsed.error.issues[0]?.message ?? 'the call is not valid'}.`);
};

/** The error of the API; a fault of ours has no more to say to user code. */
const faultOf = (error: unknown): CallFault => {
  if (error instanceof CallFault) return error;
  const { code, message } = error instanceof ServiceError ? error : toServiceError(error);
  return new CallFault('StorageError', message, { code });
};

interface Upload {
  readonly body: PassThrough;
  readonly done: Promise<{ readonly id: string; readonly path: string; readonly bucket: string }>;
}

interface Download {
  readonly pieces: AsyncIterator<Buffer>;
  readonly body: Readable;
}

/** The files that one run reads and writes, as the project itself: no policy binds it. */
class RunFiles {
  readonly #deps: StorageServiceDeps;
  readonly #run: { readonly projectId: string; readonly signal: AbortSignal };
  readonly #uploads = new Map<number, Upload>();
  readonly #downloads = new Map<number, Download>();
  readonly #ended = new AbortController();
  #call: Promise<StorageCall> | undefined;

  constructor(deps: StorageServiceDeps, run: Pick<Parameters<OpenService>[0], 'projectId' | 'signal'>) {
    this.#deps = deps;
    this.#run = run;
  }

  call(): Promise<StorageCall> {
    return (this.#call ??= this.#openCall());
  }

  async #openCall(): Promise<StorageCall> {
    const project = await this.#deps.findProject(this.#run.projectId);
    if (project === undefined) throw new CallFault('StorageError', 'The project was deleted.');
    return asPlatform({ project, signal: AbortSignal.any([this.#run.signal, this.#ended.signal]) });
  }

  /** A call that names no bucket means the one that the project began with. */
  async place({ bucket, name }: { bucket?: string | null | undefined; name: string }) {
    const call = await this.call();
    return {
      call,
      bucket: requireBucketName(bucket ?? call.project.slug, 'bucket'),
      name: requireName(name, 'path'),
    };
  }

  #checkRoom(number: number): void {
    if (this.#uploads.has(number) || this.#downloads.has(number)) {
      throw new CallFault('TypeError', 'storage: there is a transfer of that number.');
    }
    if (this.#uploads.size + this.#downloads.size < maxOpen) return;
    throw new CallFault('StorageError', `More than ${maxOpen} files are open at a time. Read or cancel some first.`);
  }

  async begin(args: z.output<(typeof schemas)['begin']>): Promise<void> {
    const { call, bucket, name } = await this.place(args);
    this.#checkRoom(args.id);
    const body = new PassThrough({ highWaterMark: pieceBytes });
    const request = {
      bucket,
      name,
      mode: args.upsert === true ? ('upsert' as const) : ('insert' as const),
      mimeType: mediaType(args.contentType ?? 'application/octet-stream'),
      cacheControl: cacheControl(args.cacheControl ?? '3600'),
      userMetadata: {},
      declaredSize: null,
    };
    const done = upload(this.#deps.storage, call, request, () => body).then((made) => ({
      id: made.id,
      path: made.name,
      bucket: made.bucket,
    }));
    // Told by the next call.
    done.catch(() => undefined);
    this.#uploads.set(args.id, { body, done });
  }

  #upload(number: number): Upload {
    const found = this.#uploads.get(number);
    if (found === undefined) throw new CallFault('TypeError', 'storage: there is no upload of that number.');
    return found;
  }

  /** Waits until there is room for more, or for the refusal of the whole. */
  async write({ id: number, chunk }: z.output<(typeof schemas)['write']>): Promise<void> {
    const { body, done } = this.#upload(number);
    if (body.write(Buffer.from(chunk, 'base64'))) return;
    const drained = Promise.withResolvers<void>();
    body.once('drain', drained.resolve);
    await Promise.race([drained.promise, done]);
  }

  async end(number: number) {
    const { body, done } = this.#upload(number);
    body.end();
    return done.finally(() => this.#uploads.delete(number));
  }

  async open(args: z.output<(typeof schemas)['open']>) {
    const { call, ...at } = await this.place(args);
    this.#checkRoom(args.id);
    const object = await requireObject(this.#deps.storage, call, at);
    const signal = AbortSignal.any([this.#run.signal, this.#ended.signal]);
    const body = await this.#deps.storage.bytes.read(keyOf(call.project.id, object.version), { signal });
    if (body === null) throw new ServiceError('not_found', 'No such object.');
    body.on('error', () => undefined);
    const pieces = inPieces(body)[Symbol.asyncIterator]();
    this.#downloads.set(args.id, { body, pieces });
    return { size: object.size, contentType: object.mime_type, etag: object.etag, lastModified: object.updated_at };
  }

  async read(number: number): Promise<{ done: true } | { chunk: string }> {
    const download = this.#downloads.get(number);
    const next = await download?.pieces.next();
    if (next !== undefined && next.done !== true) return { chunk: next.value.toString('base64') };
    this.#downloads.delete(number);
    return { done: true };
  }

  cancel(number: number): void {
    this.#downloads.get(number)?.body.destroy();
    this.#downloads.delete(number);
    this.#uploads.get(number)?.body.destroy(new CallFault('AbortError', 'The upload was cancelled.'));
    this.#uploads.delete(number);
  }

  close(): void {
    this.#ended.abort();
    for (const number of [...this.#downloads.keys(), ...this.#uploads.keys()]) this.cancel(number);
  }
}

async function* inPieces(body: Readable): AsyncGenerator<Buffer> {
  for await (const chunk of body as AsyncIterable<Buffer>) {
    for (let at = 0; at < chunk.length; at += pieceBytes) yield chunk.subarray(at, at + pieceBytes);
  }
}

const answering =
  <Schema extends z.ZodType>(schema: Schema, answer: (args: z.output<Schema>) => Promise<unknown>) =>
  async (args: unknown): Promise<unknown> => {
    try {
      return await answer(parse(schema, args));
    } catch (error) {
      throw faultOf(error);
    }
  };

/** The files of the project for its functions; what a run leaves open ends with it. */
export const storageService =
  (deps: StorageServiceDeps): OpenService =>
  (run) => {
    const files = new RunFiles(deps, run);
    return {
      answers: {
        'storage.begin': answering(schemas.begin, (args) => files.begin(args)),
        'storage.write': answering(schemas.write, (args) => files.write(args)),
        'storage.end': answering(schemas.one, (args) => files.end(args.id)),
        'storage.open': answering(schemas.open, (args) => files.open(args)),
        'storage.read': answering(schemas.one, (args) => files.read(args.id)),
        'storage.cancel': answering(schemas.one, async (args) => files.cancel(args.id)),
        'storage.list': answering(schemas.list, async ({ bucket, prefix, limit, offset, search }) => {
          const call = await files.call();
          return list(deps.storage, call, {
            bucket: bucket ?? call.project.slug,
            prefix: prefix ?? '',
            search: search ?? '',
            limit: limit ?? 100,
            offset: offset ?? 0,
            column: 'name',
            order: 'asc',
          });
        }),
        'storage.remove': answering(schemas.remove, async ({ bucket, names }) => {
          const call = await files.call();
          const wanted = names.map((name) => requireName(name, 'path'));
          return (await remove(deps.storage, call, bucket ?? call.project.slug, wanted)).map(({ name }) => name);
        }),
        'storage.signedUrl': answering(schemas.signedUrl, async (args) => {
          const { call, ...at } = await files.place(args);
          await requireObject(deps.storage, call, at);
          const grant = { use: 'read', url: urlOf(at) } as const;
          const token = signGrant(deps.storage, call.project, grant, args.expiresIn);
          const path = at.name.split('/').map(encodeURIComponent).join('/');
          return `${deps.restUrlOf(call.project.ref)}/storage/v1/object/sign/${at.bucket}/${path}?token=${token}`;
        }),
      },
      close: async () => files.close(),
    };
  };
