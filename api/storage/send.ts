import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { BaseCall, DataCall } from '#api/call.ts';
import { RawReply } from '#api/endpoint.ts';
import type { RawRequest } from '#api/raw-endpoint.ts';
import { conditionOf, rangesOf } from '#domain/storage/conditions.ts';
import { noObject } from '#domain/storage/errors.ts';
import { keyOf } from '#domain/storage/names.ts';
import { servingHeaders } from '#domain/storage/serving.ts';
import type { StorageCall } from '#domain/storage/storage.ts';
import type { StoredObject } from '#domain/storage/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { ByteRange } from '#lib/object-store/object-store.ts';
import { smallBytes } from './small-files.ts';
import { beginTransfer } from './transfers.ts';

const nothing = (): Readable => Readable.from([]);

type Headers = Readonly<Record<string, string>>;

interface Sending {
  readonly request: RawRequest;
  readonly call: BaseCall;
  readonly project: StorageCall['project'];
  readonly object: StoredObject;
  /** Where the bytes are. */
  readonly key: string;
  readonly headers: Headers;
}

/** The type is set as a header, as it was given. Headers are set last: an error has none of them. */
const reply = ({ call, headers }: Sending, status: number, body: RawReply['body'], more: Headers = {}): RawReply => {
  for (const [name, value] of Object.entries({ ...headers, ...more })) call.setHeader(name, value);
  return new RawReply(body, '', status);
};

/** @throws {ServiceError} `not_found` when the object was deleted or replaced, and its bytes are gone by now */
const openBytes = async ({ call, key }: Sending, range?: ByteRange): Promise<Readable> => {
  const stream = await call.deps.storage.bytes.read(key, {
    signal: call.signal,
    ...(range && { range }),
  });
  if (stream === null) throw noObject();
  return stream;
};

/** A stream that fails when its head is sent ends the connection: the client must not take what it has for the whole. */
const guarded = ({ request: { context } }: Sending, stream: Readable): Readable =>
  stream.once('error', () => context.res.destroy());

/** A HEAD is answered as its GET would be, without the bytes. */
const bodyOf = async (sending: Sending, range?: ByteRange): Promise<Readable> =>
  sending.request.method === 'HEAD' ? nothing() : guarded(sending, await openBytes(sending, range));

const sizeOf = ({ start, end }: ByteRange): number => end - start + 1;

const rangeText = ({ start, end }: ByteRange, { size }: StoredObject): string => `bytes ${start}-${end}/${size}`;

const sendWhole = async (sending: Sending): Promise<RawReply> => {
  const { request, call, project, object, key } = sending;
  const isSmall = request.method !== 'HEAD' && object.size <= smallBytes;
  const body = isSmall
    ? await call.deps.smallFiles({ projectId: project.id, key, size: object.size }, () => openBytes(sending))
    : await bodyOf(sending);
  return reply(sending, 200, body, { 'Content-Length': String(object.size) });
};

const sendRange = async (sending: Sending, range: ByteRange): Promise<RawReply> =>
  reply(sending, 206, await bodyOf(sending, range), {
    'Content-Length': String(sizeOf(range)),
    'Content-Range': rangeText(range, sending.object),
  });

/** RFC 9110, 14.6. */
const sendRanges = (sending: Sending, ranges: readonly ByteRange[]): RawReply => {
  const { request, object } = sending;
  const boundary = randomUUID();
  const headOf = (range: ByteRange): string =>
    `\r\n--${boundary}\r\nContent-Type: ${object.mime_type}\r\nContent-Range: ${rangeText(range, object)}\r\n\r\n`;
  const end = `\r\n--${boundary}--\r\n`;
  const length = ranges.reduce((sum, range) => sum + headOf(range).length + sizeOf(range), end.length);
  const parts = async function* parts(): AsyncGenerator<Buffer> {
    for (const range of ranges) {
      yield Buffer.from(headOf(range));
      for await (const chunk of await openBytes(sending, range)) yield chunk as Buffer;
    }
    yield Buffer.from(end);
  };
  const body = request.method === 'HEAD' ? nothing() : Readable.from(parts(), { objectMode: false });
  return reply(sending, 206, guarded(sending, body), {
    'Content-Type': `multipart/byteranges; boundary=${boundary}`,
    'Content-Length': String(length),
  });
};

const isOwnHost = ({ context }: RawRequest, { deps }: BaseCall, { ref }: StorageCall['project']): boolean =>
  deps.config.PUBLIC_DOMAIN !== undefined && context.host === `${ref}.${deps.config.PUBLIC_DOMAIN}`;

/** Sends an object that the caller may read, or says that it has it already. */
export const sendObject = async (
  request: RawRequest,
  call: BaseCall & Partial<Pick<DataCall, 'byMember'>>,
  { project }: Pick<StorageCall, 'project'>,
  {
    object,
    isPublic,
    key = keyOf(project.id, object.version),
  }: { readonly object: StoredObject; readonly isPublic: boolean; readonly key?: string },
): Promise<RawReply> => {
  const headers = servingHeaders(object, {
    download: new URLSearchParams(request.queryText).get('download'),
    ownHost: isOwnHost(request, call, project),
    pdf: call.deps.config.PLINTH_STORAGE_PDF,
    isPublic,
    byMember: call.byMember === true,
  });
  const sending: Sending = { request, call, project, object, key, headers };
  const condition = conditionOf(request.header, object);
  if (condition === 'failed') throw new ServiceError('precondition_failed', 'The object is another one by now.');
  if (condition === 'unchanged') return reply(sending, 304, null);
  const [range, ...more] = rangesOf(request.header, object) ?? [];
  beginTransfer(request.context, call, project);
  if (range === undefined) return sendWhole(sending);
  return more.length === 0 ? sendRange(sending, range) : sendRanges(sending, [range, ...more]);
};
