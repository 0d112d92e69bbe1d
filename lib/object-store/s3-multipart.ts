import { randomUUID } from 'node:crypto';
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  HeadObjectCommand,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { StoreUnavailableError } from './errors.ts';
import { type S3Bucket, answerIfAny, answerOf, until } from './s3-client.ts';

const mib = 2 ** 20;
const maxParts = 10_000;

/** S3 takes 5 MB and more, and 10,000 parts: up to 52 GB in parts of 5 MB, 84 GB in parts of 8 MB. */
export const partSizeOf = (bytes: number): number => {
  if (bytes <= 5 * mib * maxParts) return 5 * mib;
  return Math.max(8 * mib, Math.ceil(bytes / maxParts));
};

// Below it, bytes are kept as they came: small files are many, and need no memory of a whole part.
const smallBytes = 256 * 1024;

/**
 * Gathers bytes into one part. Each chunk is copied as it comes: joining 5 MB at once would hold the event loop for 5 to
 * 13 ms.
 */
const createPart = (partSize: number) => {
  let [pieces, whole, held]: [Uint8Array[], Buffer | null, number] = [[], null, 0];
  const grow = (): Buffer => {
    const grown = Buffer.allocUnsafeSlow(partSize);
    let at = 0;
    for (const piece of pieces) {
      grown.set(piece, at);
      at += piece.length;
    }
    pieces = [];
    return grown;
  };
  return {
    /** Takes as much of a chunk as the part has room for, and returns the rest. */
    fill: (chunk: Uint8Array): Uint8Array => {
      const piece = chunk.subarray(0, partSize - held);
      if (whole === null && held + piece.length > smallBytes) whole = grow();
      if (whole === null) pieces.push(piece);
      else whole.set(piece, held);
      held += piece.length;
      return chunk.subarray(piece.length);
    },
    isFull: (): boolean => held === partSize,
    bytes: (): Buffer => whole?.subarray(0, held) ?? Buffer.concat(pieces, held),
  };
};

/** Cuts chunks into parts of one size; the last one is smaller, or empty. */
export async function* partsOf(chunks: AsyncIterable<Uint8Array>, partSize: number): AsyncGenerator<Buffer> {
  let part = createPart(partSize);
  for await (const chunk of chunks) {
    for (let rest = chunk; rest.length > 0;) {
      rest = part.fill(rest);
      if (!part.isFull()) continue;
      yield part.bytes();
      part = createPart(partSize);
    }
  }
  yield part.bytes();
}

/** A multipart upload that was begun. `mark` is in the metadata of the object that it makes. */
export interface Multipart {
  readonly bucket: S3Bucket;
  readonly key: string;
  readonly uploadId: string;
  readonly mark: string;
}

const markName = 'plinth-write';

const place = ({ bucket, key, uploadId }: Multipart) => ({ Bucket: bucket.name, Key: key, UploadId: uploadId });

export const beginMultipart = async (bucket: S3Bucket, key: string, signal?: AbortSignal): Promise<Multipart> => {
  const mark = randomUUID();
  const create = new CreateMultipartUploadCommand({ Bucket: bucket.name, Key: key, Metadata: { [markName]: mark } });
  const { UploadId: uploadId } = await answerOf(bucket.client.send(create, until(signal)), signal);
  if (uploadId === undefined) throw new StoreUnavailableError(new Error('no upload id'));
  return { bucket, key, uploadId, mark };
};

const sendPart = async (
  multipart: Multipart,
  partNumber: number,
  bytes: Buffer,
  signal?: AbortSignal,
): Promise<CompletedPart> => {
  const command = new UploadPartCommand({ ...place(multipart), PartNumber: partNumber, Body: bytes });
  const { ETag } = await answerOf(multipart.bucket.client.send(command, until(signal)), signal);
  return { PartNumber: partNumber, ETag };
};

const partsInFlight = 2;

/**
 * Sends parts, two at a time: no more than two are held.
 * @param failed is called at the first failure, so that the wait for further bytes can end
 */
export const sendParts = async (
  multipart: Multipart,
  parts: AsyncIterable<Buffer>,
  {
    first,
    signal,
    failed,
  }: { readonly first: number; readonly signal: AbortSignal; readonly failed: (reason: unknown) => void },
): Promise<CompletedPart[]> => {
  const sent: Promise<CompletedPart>[] = [];
  try {
    for await (const part of parts) {
      if (part.length === 0) break;
      const sending = sendPart(multipart, first + sent.length, part, signal);
      sending.catch(failed);
      sent.push(sending);
      await sent.at(-partsInFlight);
    }
  } finally {
    await Promise.allSettled(sent);
  }
  return Promise.all(sent);
};

/** The object that a key has, if this multipart upload made it. */
const madeBy = async ({ bucket, key, mark }: Multipart) => {
  const head = await answerIfAny(bucket.client.send(new HeadObjectCommand({ Bucket: bucket.name, Key: key })));
  return head?.Metadata?.[markName] === mark ? head : null;
};

/** A key is whole or is not there. Bytes that cannot be removed now are left to the sweep, since no row names them. */
const removeShort = async ({ bucket, key }: Multipart): Promise<void> => {
  await bucket.client.send(new DeleteObjectCommand({ Bucket: bucket.name, Key: key })).catch(() => {});
};

/**
 * Makes the object of all parts. A server that has done it and failed to answer is found out by the mark. The size is
 * compared, since nothing else would show that the server lost a part.
 */
export const completeMultipart = async (
  multipart: Multipart,
  parts: readonly CompletedPart[],
  size: number,
): Promise<void> => {
  const command = new CompleteMultipartUploadCommand({ ...place(multipart), MultipartUpload: { Parts: [...parts] } });
  const request = answerOf(multipart.bucket.client.send(command));
  const failure = await request.then(
    () => null,
    (error: Error) => error,
  );
  const made = await madeBy(multipart).catch((error: Error) => {
    throw failure ?? error;
  });
  if (made?.ContentLength === size) return;
  if (made !== null) await removeShort(multipart);
  throw failure ?? new StoreUnavailableError(new Error(`of ${size} bytes ${made?.ContentLength} are there`));
};

/** Whether the object of a key was made by this multipart upload, whole. */
export const isMadeBy = async (multipart: Multipart, size: number): Promise<boolean> =>
  (await madeBy(multipart))?.ContentLength === size;

/** Gives the parts up; those that cannot be given up now are left to `removeUnfinished`. */
export const abandonMultipart = async (multipart: Multipart): Promise<void> => {
  await multipart.bucket.client.send(new AbortMultipartUploadCommand(place(multipart))).catch(() => {});
};

/** Copies a range of another object, which the server does by itself. */
export const copyPart = async (
  multipart: Multipart,
  partNumber: number,
  { source, start, end }: { readonly source: string; readonly start: number; readonly end: number },
): Promise<CompletedPart> => {
  const command = new UploadPartCopyCommand({
    ...place(multipart),
    PartNumber: partNumber,
    CopySource: source,
    CopySourceRange: `bytes=${start}-${end}`,
  });
  const { CopyPartResult } = await answerOf(multipart.bucket.client.send(command));
  return { PartNumber: partNumber, ETag: CopyPartResult?.ETag };
};
