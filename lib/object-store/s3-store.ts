import { Readable, addAbortSignal } from 'node:stream';
import {
  AbortMultipartUploadCommand,
  CopyObjectCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  type MultipartUpload,
  PutObjectCommand,
} from '@aws-sdk/client-s3';
import { chunksOf, createMeter, measured } from './body.ts';
import { StoreUnavailableError } from './errors.ts';
import { isKey, requireKey, requirePrefix } from './keys.ts';
import type {
  ByteRange,
  ListedObject,
  ReadOptions,
  StorageDriver,
  StoredBytes,
  UnfinishedWrite,
  WriteOptions,
} from './object-store.ts';
import { type S3Bucket, answerIfAny, answerOf, isRangeBeyondEnd, until } from './s3-client.ts';
import {
  abandonMultipart,
  beginMultipart,
  completeMultipart,
  copyPart,
  partSizeOf,
  partsOf,
  sendParts,
} from './s3-multipart.ts';

export const putObject = async (bucket: S3Bucket, key: string, bytes: Buffer, signal?: AbortSignal): Promise<void> => {
  const command = new PutObjectCommand({ Bucket: bucket.name, Key: key, Body: bytes });
  await answerOf(bucket.client.send(command, until(signal)), signal);
};

async function* withFirst(first: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield first;
  yield* rest;
}

/** A body that fits one part is one request, which S3 does whole or not at all; a larger one is a multipart upload. */
export const writeObject = async (
  bucket: S3Bucket,
  key: string,
  body: Readable,
  options: WriteOptions,
): Promise<StoredBytes> => {
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const meter = createMeter(options.maxBytes, options.size);
  signal.throwIfAborted();
  const partSize = partSizeOf(options.size ?? options.maxBytes);
  const parts = partsOf(measured(chunksOf(body, signal), meter), partSize);
  try {
    const first = (await parts.next()).value ?? Buffer.alloc(0);
    if (first.length < partSize) {
      const stored = meter.end();
      await putObject(bucket, key, first, signal);
      return stored;
    }
    const multipart = await beginMultipart(bucket, key, signal);
    try {
      const fail = (reason: unknown): void => failed.abort(reason);
      const sent = await sendParts(multipart, withFirst(first, parts), { first: 1, signal, failed: fail });
      const stored = meter.end();
      options.signal.throwIfAborted();
      await completeMultipart(multipart, sent, stored.size);
      return stored;
    } catch (error) {
      await abandonMultipart(multipart);
      throw error;
    }
  } finally {
    await parts.return(undefined);
  }
};

const rangeHeader = (range: ByteRange | undefined) => (range ? { Range: `bytes=${range.start}-${range.end}` } : {});

const read = async (bucket: S3Bucket, key: string, { range, signal }: ReadOptions): Promise<Readable | null> => {
  requireKey(key);
  signal.throwIfAborted();
  const command = new GetObjectCommand({ Bucket: bucket.name, Key: key, ...rangeHeader(range) });
  const request = bucket.client.send(command, until(signal));
  const answer = await answerIfAny(
    request.catch((error: unknown) => {
      if (isRangeBeyondEnd(error)) return { Body: Readable.from([]) };
      throw error;
    }),
    signal,
  );
  if (answer === null) return null;
  if (!(answer.Body instanceof Readable)) throw new StoreUnavailableError(new Error('no body'));
  return addAbortSignal(signal, answer.Body);
};

const copyInParts = async (bucket: S3Bucket, source: string, to: string, size: number): Promise<void> => {
  const multipart = await beginMultipart(bucket, to);
  try {
    const parts = [];
    for (let start = 0; start < size; start += bucket.maxCopyBytes) {
      const end = Math.min(start + bucket.maxCopyBytes, size) - 1;
      parts.push(await copyPart(multipart, parts.length + 1, { source, start, end }));
    }
    await completeMultipart(multipart, parts, size);
  } catch (error) {
    await abandonMultipart(multipart);
    throw error;
  }
};

const copy = async (bucket: S3Bucket, from: string, to: string): Promise<boolean> => {
  requireKey(from);
  requireKey(to);
  const head = await answerIfAny(bucket.client.send(new HeadObjectCommand({ Bucket: bucket.name, Key: from })));
  if (head === null) return false;
  // S3 refuses to copy an object onto itself.
  if (from === to) return true;
  const [source, size] = [`${bucket.name}/${from}`, head.ContentLength ?? 0];
  if (size > bucket.maxCopyBytes) {
    await copyInParts(bucket, source, to, size);
    return true;
  }
  const command = new CopyObjectCommand({ Bucket: bucket.name, Key: to, CopySource: source });
  return (await answerIfAny(bucket.client.send(command))) !== null;
};

const keysAtATime = 1000;
const singlesAtATime = 8;

const removeSingly = async (bucket: S3Bucket, keys: readonly string[]): Promise<void> => {
  for (let at = 0; at < keys.length; at += singlesAtATime) {
    const some = keys.slice(at, at + singlesAtATime);
    const removals = some.map((key) => bucket.client.send(new DeleteObjectCommand({ Bucket: bucket.name, Key: key })));
    await answerIfAny(Promise.all(removals));
  }
};

/** Some servers (Google's among them) have no request that deletes many, and some keys of one may fail. */
const removeMany = async (bucket: S3Bucket, keys: readonly string[]): Promise<void> => {
  const command = new DeleteObjectsCommand({
    Bucket: bucket.name,
    Delete: { Objects: keys.map((key) => ({ Key: key })), Quiet: true },
  });
  const failed = await bucket.client.send(command).then(
    ({ Errors = [] }) => Errors.flatMap(({ Key }) => Key ?? []),
    () => keys,
  );
  await removeSingly(bucket, failed);
};

const removeKeys = async (bucket: S3Bucket, keys: readonly string[]): Promise<void> => {
  for (const key of keys) requireKey(key);
  if (keys.length === 1) return removeSingly(bucket, keys);
  for (let at = 0; at < keys.length; at += keysAtATime) await removeMany(bucket, keys.slice(at, at + keysAtATime));
};

/** Objects that have no key of the store, such as those of resumable uploads, are left out. */
async function* listKeys(bucket: S3Bucket, prefix: string): AsyncGenerator<ListedObject> {
  let token: string | undefined;
  do {
    const command = new ListObjectsV2Command({ Bucket: bucket.name, Prefix: prefix, ContinuationToken: token });
    const page: ListObjectsV2CommandOutput = await answerOf(bucket.client.send(command));
    for (const { Key, Size, LastModified } of page.Contents ?? []) {
      if (Key !== undefined && isKey(Key)) yield { key: Key, size: Size ?? 0, modifiedAt: LastModified ?? new Date() };
    }
    token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
  } while (token !== undefined);
}

async function* multipartsIn(bucket: S3Bucket): AsyncGenerator<MultipartUpload> {
  let [key, id]: [string | undefined, string | undefined] = [undefined, undefined];
  do {
    const command: ListMultipartUploadsCommand = new ListMultipartUploadsCommand({
      Bucket: bucket.name,
      KeyMarker: key,
      UploadIdMarker: id,
    });
    const page: ListMultipartUploadsCommandOutput = await answerOf(bucket.client.send(command));
    yield* page.Uploads ?? [];
    [key, id] = page.IsTruncated === true ? [page.NextKeyMarker, page.NextUploadIdMarker] : [undefined, undefined];
  } while (key !== undefined);
}

async function* unfinishedIn(bucket: S3Bucket): AsyncGenerator<UnfinishedWrite> {
  for await (const { Key, UploadId, Initiated } of multipartsIn(bucket)) {
    yield { id: `${Key}?${UploadId}`, activeAt: Initiated ?? new Date() };
  }
}

const removeUnfinished = async (bucket: S3Bucket, activeBefore: Date): Promise<number> => {
  let count = 0;
  for await (const { Key, UploadId, Initiated } of multipartsIn(bucket)) {
    if (Initiated === undefined || Initiated >= activeBefore) continue;
    await answerIfAny(bucket.client.send(new AbortMultipartUploadCommand({ Bucket: bucket.name, Key, UploadId })));
    count += 1;
  }
  return count;
};

/**
 * Objects of a bucket, which must exist and be the platform's alone: `removeUnfinished` ends every multipart upload of
 * it that is old enough, those of resumable uploads, too. Its time lies further back than they may take.
 */
export const createS3Store = (bucket: S3Bucket): StorageDriver => ({
  write: async (key, body, options) => {
    requireKey(key);
    return writeObject(bucket, key, body, options);
  },
  read: (key, options) => read(bucket, key, options),
  copy: (from, to) => copy(bucket, from, to),
  remove: (keys) => removeKeys(bucket, keys),
  list: (prefix) => {
    requirePrefix(prefix);
    return listKeys(bucket, prefix);
  },
  check: async (signal) => {
    await answerOf(bucket.client.send(new HeadBucketCommand({ Bucket: bucket.name }), until(signal)), signal);
  },
  unfinished: () => unfinishedIn(bucket),
  removeUnfinished: (activeBefore) => removeUnfinished(bucket, activeBefore),
});
