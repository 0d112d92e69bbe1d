import type { JsonParser } from '#lib/json-parser.ts';
import { type BatchEntry, readEntries } from './batch.ts';
import { type Outcome, type ReadBody, useOf, valueOf } from './payload.ts';
import type { RestRequest } from './request.ts';

/** The threads that read large bodies. */
export type BodyThreads = Pick<JsonParser, 'readUnchecked'>;

/**
 * Bytes up to which a body is read on the event loop: at worst 4 ms of it (an object of nothing but names), so that ten
 * of them at once stay below 50 ms.
 */
export const maxInlineBytes = 32 * 1024;
/** The same for a batch, whose numbers are kept as they were written: at worst 5 ms. */
const maxInlineBatchBytes = 16 * 1024;

const readers = new URL('thread-readers.ts', import.meta.url).href;

/**
 * Returns the request with its body read by a thread where it is large. Before any transaction is started: it may have
 * to wait.
 * @param owner whose work it is
 * @throws {ServiceError} `overloaded`
 */
export const withBodyRead = async (threads: BodyThreads, owner: string, request: RestRequest): Promise<RestRequest> => {
  const { method, target, header, body } = request;
  const use = body.length <= maxInlineBytes ? null : useOf(method, target, header('content-type'));
  if (use === null) return request;
  const read = await threads.readUnchecked(body, { module: readers, name: 'bodyReader' }, { owner, args: use });
  return { ...request, read: read as ReadBody };
};

const requestOf = ({ headers, body, ...entry }: BatchEntry): RestRequest => ({
  ...entry,
  header: (name) => headers.get(name.toLowerCase()) ?? '',
  body: Buffer.from(body),
});

/**
 * The requests of a batch; numbers in their bodies stay as they were written.
 * @throws {DataError} PGRST102
 * @throws {ServiceError} `overloaded`
 */
export const readBatch = async (
  threads: BodyThreads,
  { owner, body, withRows }: { readonly owner: string; readonly body: Buffer; readonly withRows: boolean },
): Promise<readonly RestRequest[]> => {
  if (body.length <= maxInlineBatchBytes) return readEntries(body, withRows).map(requestOf);
  const reader = { module: readers, name: 'batchReader' };
  const outcome = await threads.readUnchecked(body, reader, { owner, args: withRows });
  return valueOf(outcome as Outcome<readonly BatchEntry[]>).map(requestOf);
};
