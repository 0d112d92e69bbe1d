import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { SizeMismatchError, TooLargeError } from './errors.ts';
import type { StoredBytes } from './object-store.ts';

const bytesOf = (chunk: unknown): Uint8Array => (chunk instanceof Uint8Array ? chunk : Buffer.from(String(chunk)));

/** Ends a wait when the signal aborts. One listener for all waits: racing against one promise would keep each of them. */
const abortableWaits = (signal: AbortSignal) => {
  let giveUp: ((reason: unknown) => void) | undefined;
  const onAbort = (): void => giveUp?.(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  return {
    wait: <T>(work: Promise<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        giveUp = reject;
        if (signal.aborted) onAbort();
        work.then(resolve, reject);
      }),
    end: (): void => signal.removeEventListener('abort', onAbort),
  };
};

async function* chunksAfter(
  first: Promise<IteratorResult<unknown>>,
  iterator: AsyncIterator<unknown>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const waits = abortableWaits(signal);
  try {
    for (let coming = first; ; coming = iterator.next()) {
      const next = await waits.wait(coming);
      if (next.done === true) return;
      yield bytesOf(next.value);
    }
  } finally {
    waits.end();
    // Queued behind a wait that may never end.
    iterator.return?.().catch(() => {});
  }
}

/**
 * The chunks of a body as they come. The body is not destroyed when the reader stops early: a request must stay
 * open for its answer. The first chunk is requested at once, so that a body that fails before anybody reads is noticed
 * here, and is no uncaught error.
 * @throws the signal's reason, also while nothing comes
 */
export const chunksOf = (body: Readable, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> => {
  const iterator: AsyncIterator<unknown> = body.iterator({ destroyOnReturn: false });
  const first = iterator.next();
  first.catch(() => {});
  return chunksAfter(first, iterator, signal);
};

/** Counts and hashes what passes. */
interface Meter {
  /** @throws {TooLargeError} */
  readonly add: (chunk: Uint8Array) => void;
  /** @throws {SizeMismatchError} */
  readonly end: () => StoredBytes;
}

/** @param size the announced length, when there is one */
export const createMeter = (maxBytes: number, size?: number): Meter => {
  const hash = createHash('sha256');
  let came = 0;
  if (size !== undefined && size > maxBytes) throw new TooLargeError(maxBytes);
  return {
    add: (chunk) => {
      came += chunk.length;
      if (came > maxBytes) throw new TooLargeError(maxBytes);
      if (size !== undefined && came > size) throw new SizeMismatchError(size, came);
      hash.update(chunk);
    },
    end: () => {
      if (size !== undefined && came !== size) throw new SizeMismatchError(size, came);
      return { size: came, sha256: hash.digest('hex') };
    },
  };
};

/** Passes chunks on that a meter has counted. */
export async function* measured(chunks: AsyncIterable<Uint8Array>, meter: Meter): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    meter.add(chunk);
    yield chunk;
  }
}
