import { ApiError } from '../../client/api.ts';

/*
 * Resumable uploads by tus 1.0, as far as a page needs it: begin, ask how much has arrived, send the next piece. A
 * request of `fetch` says nothing of its progress upwards, so pieces are sent by XMLHttpRequest.
 */

/** A proxy on the way may refuse larger bodies, and what a broken connection costs is at most one piece. */
const pieceBytes = 8 * 1024 * 1024;

export interface UploadTarget {
  /** The address to which uploads are posted. */
  readonly collection: string;
  readonly bucket: string;
  readonly name: string;
  readonly file: File;
  /** Whether a file of that name is replaced. */
  readonly replaces: boolean;
}

interface Sent {
  readonly status: number;
  readonly header: (name: string) => string | null;
}

interface Request {
  readonly method: 'HEAD' | 'PATCH' | 'POST' | 'DELETE';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Blob;
  readonly signal: AbortSignal;
  readonly onSent?: (bytes: number) => void;
}

/** Without a byte passing for so long the connection counts as broken. */
const silentMs = 60_000;

const bodyOf = (text: string): Record<string, unknown> => {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
};

/** @throws {ApiError} with the status 0 when the platform is unreachable; the abort's reason */
const request = (at: string, { method, headers = {}, body, signal, onSent }: Request): Promise<Sent> => {
  const { promise, resolve, reject } = Promise.withResolvers<Sent>();
  const xhr = new XMLHttpRequest();
  xhr.open(method, at);
  for (const [name, value] of Object.entries({ 'tus-resumable': '1.0.0', ...headers }))
    xhr.setRequestHeader(name, value);
  const fail = (): void => reject(new ApiError(0, { code: 'unreachable', message: 'The connection broke.' }));
  let silence = setTimeout(() => xhr.abort(), silentMs);
  const alive = (): void => {
    clearTimeout(silence);
    silence = setTimeout(() => xhr.abort(), silentMs);
  };
  const abort = (): void => xhr.abort();
  signal.addEventListener('abort', abort);
  xhr.upload.addEventListener('progress', ({ loaded }) => {
    alive();
    onSent?.(loaded);
  });
  xhr.addEventListener('error', fail);
  xhr.addEventListener('abort', () => (signal.aborted ? reject(signal.reason as Error) : fail()));
  xhr.addEventListener('load', () => {
    if (xhr.status < 400) resolve({ status: xhr.status, header: (name) => xhr.getResponseHeader(name) });
    else reject(new ApiError(xhr.status, bodyOf(xhr.responseText)));
  });
  xhr.addEventListener('loadend', () => {
    clearTimeout(silence);
    signal.removeEventListener('abort', abort);
  });
  if (signal.aborted) reject(signal.reason as Error);
  else xhr.send(body);
  return promise;
};

const base64 = (text: string): string =>
  btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCodePoint(byte)).join(''));

const metadataOf = ({ bucket, name, file }: UploadTarget): string =>
  Object.entries({
    bucketName: bucket,
    objectName: name,
    contentType: file.type === '' ? 'application/octet-stream' : file.type,
  })
    .map(([key, value]) => `${key} ${base64(value)}`)
    .join(',');

/** Where an upload stands: the address of its own, and how many bytes have arrived. */
export interface Standing {
  readonly at: string;
  readonly offset: number;
}

/** Begins an upload, with the first piece of the file. */
export const begin = async (
  target: UploadTarget,
  signal: AbortSignal,
  onSent: (bytes: number) => void,
): Promise<Standing> => {
  const { collection, file, replaces } = target;
  const answer = await request(collection, {
    method: 'POST',
    signal,
    onSent,
    headers: {
      'upload-length': String(file.size),
      'upload-metadata': metadataOf(target),
      'content-type': 'application/offset+octet-stream',
      ...(replaces && { 'x-upsert': 'true' }),
    },
    // A large file must have its address before many bytes are sent: without it they could not go on.
    body: file.size <= pieceBytes ? file : file.slice(0, 0),
  });
  // Only the last part: the rest of the address is the one that was asked.
  const id = answer.header('location')?.split('/').at(-1) ?? '';
  return { at: `${collection}/${id}`, offset: Number(answer.header('upload-offset') ?? 0) };
};

/** How much of an upload has arrived; undefined: it is not known any more, and begins anew. */
export const standingOf = async (at: string, signal: AbortSignal): Promise<Standing | undefined> => {
  try {
    const answer = await request(at, { method: 'HEAD', signal });
    return { at, offset: Number(answer.header('upload-offset')) };
  } catch (error) {
    if (error instanceof ApiError && [403, 404, 410].includes(error.status)) return undefined;
    throw error;
  }
};

/** Sends the next piece. */
export const sendPiece = async (
  { at, offset }: Standing,
  file: File,
  signal: AbortSignal,
  onSent: (bytes: number) => void,
): Promise<Standing> => {
  const answer = await request(at, {
    method: 'PATCH',
    signal,
    headers: { 'upload-offset': String(offset), 'content-type': 'application/offset+octet-stream' },
    body: file.slice(offset, offset + pieceBytes),
    onSent: (bytes) => onSent(offset + bytes),
  });
  return { at, offset: Number(answer.header('upload-offset')) };
};

/** Ends an upload that nobody wants any more; one that is gone already is as good. */
export const end = async (at: string): Promise<void> => {
  await request(at, { method: 'DELETE', signal: AbortSignal.timeout(10_000) }).catch(() => undefined);
};
