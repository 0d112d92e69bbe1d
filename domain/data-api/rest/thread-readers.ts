import type { BytesReader } from '#lib/json-thread.ts';
import { readEntries } from './batch.ts';
import { type BodyUse, outcomeOf, readBody, useOf } from './payload.ts';

/**
 * Run by the threads of `lib/json-parser.ts`. What they read is bounded by `payload.ts` and `csv.ts`, as on the event
 * loop.
 */

/** @param args the `BodyUse`. Answers a `ReadBody`. */
export const bodyReader: BytesReader = (bytes, args) => ({ value: readBody(args as BodyUse, bytes) });

/** @param args whether paths of rows are known. Answers an `Outcome` of entries, each with its body read. */
export const batchReader: BytesReader = (bytes, args) => {
  const outcome = outcomeOf(() =>
    readEntries(bytes, args as boolean).map((entry) => {
      const use = useOf(entry.method, entry.target, entry.headers.get('content-type') ?? '');
      return use === null ? entry : { ...entry, read: readBody(use, Buffer.from(entry.body)) };
    }),
  );
  return { value: outcome };
};
