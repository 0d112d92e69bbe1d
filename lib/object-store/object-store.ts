/**
 * Where the bytes of files lie: one small interface and two drivers. Read in this order:
 *
 * 1. this file: the interface, and what every driver promises beside its types;
 * 2. `errors.ts`: how a store fails;
 * 3. `keys.ts`: which keys there are;
 * 4. `disk-store.ts` with `disk-paths.ts`, `disk-listing.ts`: files below `DATA_DIR/storage`;
 * 5. `s3-store.ts` with `s3-client.ts`, `s3-multipart.ts`: a bucket of any S3-compatible server;
 * 6. `open-object-store.ts`: the driver that the settings name.
 *
 * `lib/resumable/` keeps half-finished uploads (tus) beside the files of the same driver.
 *
 * Promises of every driver, which `test/object-store/conformance.test.ts` checks for each of them:
 *
 * - A key that exists can be read whole. A write that fails leaves nothing under its key, and what it left elsewhere is
 *   removed by `removeUnfinished`. Over S3 there is one exception: when the server does not answer the request that
 *   makes the bytes visible, and no later question either, the key may exist all the same. Whoever writes a row only
 *   after `write` has resolved has bytes without a row then, which its sweep removes.
 * - `write` and `copy` replace what has the key, at once and whole; a read that has begun goes on with the old bytes.
 * - `write` reads its body with back-pressure and never destroys it, so that a request whose body is too large can
 *   still be answered. After a failure the rest of the body is unread: its owner closes or drains it.
 * - `size`, where it is given, is checked: a body of another length fails with SizeMismatchError.
 * - `read` may be given a range whose end is beyond the last byte, which is cut; a range that begins beyond it is an
 *   empty stream. A stream that is not read to its end must be destroyed.
 * - An aborted `signal` ends the call, and for `read` the stream, with the signal's reason.
 * - Failures are those of `errors.ts`; anything else is the error of the body itself.
 */
import type { Readable } from 'node:stream';

export interface StoredBytes {
  readonly size: number;
  readonly sha256: string;
}
export interface ByteRange {
  readonly start: number;
  /** Inclusive. */ readonly end: number;
}

/** Where the bytes of files lie. Keys are made by the platform ([a-z0-9/-]), never by users. */
export interface ObjectStore {
  /** Writes all of a stream durably; nothing is visible under the key unless it resolves. Rejects with TooLargeError beyond maxBytes. */
  write(
    key: string,
    body: Readable,
    options: { readonly maxBytes: number; readonly signal: AbortSignal; readonly size?: number },
  ): Promise<StoredBytes>;
  /** The bytes, or those of a range; null when nothing has the key. */
  read(key: string, options: { readonly range?: ByteRange; readonly signal: AbortSignal }): Promise<Readable | null>;
  copy(from: string, to: string): Promise<boolean>;
  /** Keys that do not exist are no failure. */
  remove(keys: readonly string[]): Promise<void>;
  /** Keys below a prefix in order, for the sweep and the checker. */
  list(prefix: string): AsyncIterable<{ readonly key: string; readonly size: number; readonly modifiedAt: Date }>;
  /** Whether the store answers, for readiness. The signal ends the wait where the driver can end it. */
  check(signal?: AbortSignal): Promise<void>;
}

export type WriteOptions = Parameters<ObjectStore['write']>[2];
export type ReadOptions = Parameters<ObjectStore['read']>[1];

/** One key of a listing. `modifiedAt` is when the key was written or copied, not when its bytes were first made. */
export interface ListedObject {
  readonly key: string;
  readonly size: number;
  readonly modifiedAt: Date;
}

/** Bytes that belong to no key: what a write left that never ended. `id` is for logs. */
export interface UnfinishedWrite {
  readonly id: string;
  /** When bytes were last added, where the store knows it, or else when the write began. */
  readonly activeAt: Date;
}

/** For the sweep: both drivers have it beside the interface. */
interface ObjectStoreUpkeep {
  /** Writes that began and have neither ended nor failed here: those under way, and those of processes that died. */
  unfinished(): AsyncIterable<UnfinishedWrite>;
  /**
   * Removes what is left of writes that were last active before a time. A write that is still under way then fails, so
   * the time lies further back than any write may take.
   * @returns how many there were
   */
  removeUnfinished(activeBefore: Date): Promise<number>;
}

/** A driver. */
export type StorageDriver = ObjectStore & ObjectStoreUpkeep;
