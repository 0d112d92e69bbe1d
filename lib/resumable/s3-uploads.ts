/**
 * Uploads in the bucket of an S3 store. Each is a multipart upload of its final key, so that no byte is copied at the
 * end. S3 takes no part below 5 MB but the last, so what a request leaves over is an object of its own (the tail), named
 * by the part that it will begin: a tail counts only while that part is not there, so a crash between the two never
 * counts a byte twice. The keys of this file begin with `_`, which no key of the store does.
 */
import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  ListPartsCommand,
  type ListPartsCommandOutput,
} from '@aws-sdk/client-s3';
import { Readable } from 'node:stream';
import { StoreUnavailableError } from '#lib/object-store/errors.ts';
import type { StoredBytes } from '#lib/object-store/object-store.ts';
import { type S3Bucket, answerIfAny, answerOf } from '#lib/object-store/s3-client.ts';
import {
  type Multipart,
  beginMultipart,
  completeMultipart,
  isMadeBy,
  partSizeOf,
  partsOf,
  sendParts,
} from '#lib/object-store/s3-multipart.ts';
import { putObject, writeObject } from '#lib/object-store/s3-store.ts';
import { type RunningHashes, createRunningHashes, hashOf, hashing } from './running-hashes.ts';
import {
  type BodyChecksum,
  ChecksumMismatch,
  type FoundUpload,
  type ResumableUploads,
  type UploadInfo,
  asFinished,
  parseUploadInfo,
} from './uploads.ts';

const idForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const root = '_uploads/';

const prefixOf = (id: string): string => {
  if (!idForm.test(id)) throw new RangeError('not the id of an upload');
  return `${root}${id}/`;
};
const infoKey = (id: string): string => `${prefixOf(id)}info`;
const tailKey = (id: string, part: number): string => `${prefixOf(id)}tail-${part}`;

const getObject = async (bucket: S3Bucket, key: string): Promise<Readable | null> => {
  const answer = await answerIfAny(bucket.client.send(new GetObjectCommand({ Bucket: bucket.name, Key: key })));
  return answer?.Body instanceof Readable ? answer.Body : null;
};

const removeObject = async (bucket: S3Bucket, key: string): Promise<void> => {
  await answerIfAny(bucket.client.send(new DeleteObjectCommand({ Bucket: bucket.name, Key: key })));
};

const saveInfo = (bucket: S3Bucket, info: UploadInfo): Promise<void> =>
  putObject(bucket, infoKey(info.id), Buffer.from(JSON.stringify(info)));

const readInfo = async (bucket: S3Bucket, id: string): Promise<UploadInfo | null> => {
  const body = await getObject(bucket, infoKey(id));
  return body && parseUploadInfo((await answerOf(buffer(body))).toString());
};

const multipartOf = (bucket: S3Bucket, { key, multipart }: UploadInfo): Multipart => {
  if (multipart === undefined) throw new Error('an upload without bytes has no parts');
  return { bucket, key, uploadId: multipart.uploadId, mark: multipart.mark };
};

interface Parts {
  readonly list: readonly CompletedPart[];
  readonly bytes: number;
}

/** The parts without a gap from the first on: one after a gap was sent by a process that died, and comes again. */
const partsOfUpload = async (bucket: S3Bucket, info: UploadInfo): Promise<Parts | null> => {
  const { key, uploadId } = multipartOf(bucket, info);
  const list: CompletedPart[] = [];
  let [bytes, marker]: [number, string | undefined] = [0, undefined];
  do {
    const place = { Bucket: bucket.name, Key: key, UploadId: uploadId };
    const command: ListPartsCommand = new ListPartsCommand({ ...place, PartNumberMarker: marker });
    const page: ListPartsCommandOutput | null = await answerIfAny(bucket.client.send(command));
    if (page === null) return null;
    for (const { PartNumber, ETag, Size = 0 } of page.Parts ?? []) {
      if (PartNumber !== list.length + 1) return { list, bytes };
      list.push({ PartNumber, ETag });
      bytes += Size;
    }
    marker = page.IsTruncated === true ? page.NextPartNumberMarker : undefined;
  } while (marker !== undefined);
  return { list, bytes };
};

const tailSize = async (bucket: S3Bucket, key: string): Promise<number> => {
  const head = await answerIfAny(bucket.client.send(new HeadObjectCommand({ Bucket: bucket.name, Key: key })));
  return head?.ContentLength ?? 0;
};

const find = async (bucket: S3Bucket, id: string): Promise<FoundUpload | null> => {
  const info = await readInfo(bucket, id);
  if (info === null) return null;
  if (info.sha256 !== undefined || info.size === 0) return { info, offset: info.size };
  const parts = await partsOfUpload(bucket, info);
  // Completed by a process that died before it could write that down, or given up.
  if (parts === null)
    return (await isMadeBy(multipartOf(bucket, info), info.size)) ? { info, offset: info.size } : null;
  return { info, offset: parts.bytes + (await tailSize(bucket, tailKey(id, parts.list.length + 1))) };
};

interface Append {
  readonly bucket: S3Bucket;
  readonly hashes: RunningHashes;
  readonly found: FoundUpload;
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** Ends without an error where the chunks fail, and remembers it: what came is kept. */
const untilFailure = (chunks: AsyncIterable<Uint8Array>) => {
  const state: { failure?: Error; bytes: number } = { bytes: 0 };
  const iterate = async function* iterate(): AsyncGenerator<Uint8Array> {
    try {
      for await (const chunk of chunks) {
        state.bytes += chunk.length;
        yield chunk;
      }
    } catch (error) {
      state.failure = error instanceof Error ? error : new Error('the body failed', { cause: error });
    }
  };
  return { state, chunks: iterate() };
};

async function* after(tail: Buffer, chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield tail;
  yield* chunks;
}

/** The bytes of the tail, of which only those before the offset count. */
const readTail = async (bucket: S3Bucket, key: string, bytes: number): Promise<Buffer> => {
  if (bytes === 0) return Buffer.alloc(0);
  const body = await getObject(bucket, key);
  const tail = body && (await answerOf(buffer(body)));
  if (tail === null || tail.length < bytes) throw new StoreUnavailableError(new Error('the tail of an upload is gone'));
  return tail.subarray(0, bytes);
};

const appendTo = async ({ bucket, hashes, found: { info, offset }, chunks }: Append): Promise<number> => {
  if (info.size === 0 || info.sha256 !== undefined) return offset;
  const [multipart, parts] = [multipartOf(bucket, info), await partsOfUpload(bucket, info)];
  if (parts === null) throw new StoreUnavailableError(new Error('the parts of an upload are gone'));
  const first = parts.list.length + 1;
  const tail = await readTail(bucket, tailKey(info.id, first), offset - parts.bytes);
  const hash = hashes.take(info.id, offset);
  const coming = untilFailure(chunks);
  const partSize = info.multipart?.partSize ?? 0;
  let [rest, sentBytes]: [Buffer, number] = [Buffer.alloc(0), parts.bytes];
  const whole = async function* whole(): AsyncGenerator<Buffer> {
    for await (const part of partsOf(after(tail, hashing(coming.chunks, [hash])), partSize)) {
      if (part.length === partSize || sentBytes + part.length === info.size) {
        sentBytes += part.length;
        yield part;
      } else rest = part;
    }
  };
  const abort = new AbortController();
  const sent = await sendParts(multipart, whole(), {
    first,
    signal: abort.signal,
    failed: (reason) => abort.abort(reason),
  });
  if (rest.length > 0) await putObject(bucket, tailKey(info.id, first + sent.length), rest);
  if (first + sent.length > first || rest.length === 0) await removeObject(bucket, tailKey(info.id, first));
  if (coming.state.failure !== undefined) throw coming.state.failure;
  const end = offset + coming.state.bytes;
  hashes.keep(info.id, hash, end);
  return end;
};

/**
 * A part that was sent cannot be taken back, so a body with a checksum is first written aside, and appended from there
 * once it has been checked.
 */
const appendChecked = async (append: Append, checksum: BodyChecksum): Promise<number> => {
  const { bucket, found } = append;
  const [aside, hash] = [`${prefixOf(found.info.id)}checking`, createHash(checksum.algorithm)];
  const body = Readable.from(hashing(append.chunks, [hash]), { objectMode: false });
  const maxBytes = found.info.size - found.offset;
  await writeObject(bucket, aside, body, { maxBytes, signal: new AbortController().signal });
  try {
    if (!hash.digest().equals(checksum.digest)) throw new ChecksumMismatch();
    const checked = await getObject(bucket, aside);
    if (checked === null) throw new StoreUnavailableError(new Error('the checked bytes are gone'));
    return await appendTo({ ...append, chunks: checked });
  } finally {
    await removeObject(bucket, aside);
  }
};

const completeParts = async (bucket: S3Bucket, info: UploadInfo): Promise<void> => {
  if (info.size === 0) return putObject(bucket, info.key, Buffer.alloc(0));
  const [multipart, parts] = [multipartOf(bucket, info), await partsOfUpload(bucket, info)];
  if (parts !== null) return completeMultipart(multipart, parts.list, info.size);
  if (!(await isMadeBy(multipart, info.size))) throw new StoreUnavailableError(new Error('the parts are gone'));
};

const complete = async (bucket: S3Bucket, hashes: RunningHashes, info: UploadInfo): Promise<StoredBytes> => {
  if (info.sha256 !== undefined) return { size: info.size, sha256: info.sha256 };
  await completeParts(bucket, info);
  const hash = hashes.take(info.id, info.size);
  const body = hash === null ? await getObject(bucket, info.key) : null;
  const sha256 = hash?.digest('hex') ?? (await answerOf(hashOf(body ?? Readable.from([]))));
  await saveInfo(bucket, { ...info, sha256 });
  return { size: info.size, sha256 };
};

async function* keysBelow(bucket: S3Bucket, prefix: string): AsyncGenerator<string> {
  let token: string | undefined;
  do {
    const command = new ListObjectsV2Command({ Bucket: bucket.name, Prefix: prefix, ContinuationToken: token });
    const page: ListObjectsV2CommandOutput = await answerOf(bucket.client.send(command));
    for (const { Key } of page.Contents ?? []) if (Key !== undefined) yield Key;
    token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
  } while (token !== undefined);
}

/** The info goes last: what it names is found again when this is cut off. */
const remove = async (bucket: S3Bucket, id: string): Promise<void> => {
  const info = await readInfo(bucket, id);
  if (info?.multipart !== undefined && info.sha256 === undefined) {
    const { key, uploadId } = multipartOf(bucket, info);
    const place = { Bucket: bucket.name, Key: key, UploadId: uploadId };
    await answerIfAny(bucket.client.send(new AbortMultipartUploadCommand(place)));
  }
  for await (const key of keysBelow(bucket, prefixOf(id))) if (key !== infoKey(id)) await removeObject(bucket, key);
  await removeObject(bucket, infoKey(id));
};

async function* expired(bucket: S3Bucket, now: number): AsyncGenerator<UploadInfo> {
  for await (const key of keysBelow(bucket, root)) {
    const id = key.slice(root.length, -'/info'.length);
    const info = key.endsWith('/info') && idForm.test(id) ? await readInfo(bucket, id) : null;
    if (info !== null && info.expiresAt <= now) yield info;
  }
}

export const createS3Uploads = (bucket: S3Bucket): ResumableUploads => {
  const hashes = createRunningHashes();
  return {
    create: async (info) => {
      if (info.size === 0) return saveInfo(bucket, info);
      const { uploadId, mark } = await beginMultipart(bucket, info.key);
      await saveInfo(bucket, { ...info, multipart: { uploadId, mark, partSize: partSizeOf(info.size) } });
    },
    info: (id) => readInfo(bucket, id),
    find: (id) => find(bucket, id),
    append: (found, chunks, checksum) => {
      const append = { bucket, hashes, found, chunks };
      return checksum ? appendChecked(append, checksum) : appendTo(append);
    },
    complete: (info) => complete(bucket, hashes, info),
    markFinished: async (id) => {
      const info = await readInfo(bucket, id);
      if (info !== null) await saveInfo(bucket, asFinished(info));
    },
    remove: (id) => remove(bucket, id),
    expired: (now) => expired(bucket, now),
  };
};
