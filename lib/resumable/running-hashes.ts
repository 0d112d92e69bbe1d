import { type Hash, createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

interface Running {
  readonly hash: Hash;
  readonly offset: number;
}

// Some 400 bytes each. An upload whose hash was dropped is read once more at its end.
const maxRunning = 2000;

/**
 * The SHA-256 of uploads whose bytes have all come through this process. The state of a hash cannot be written down, so
 * an upload that another process began has none here.
 */
export const createRunningHashes = () => {
  const running = new LRUCache<string, Running>({ max: maxRunning });
  return {
    /** The hash of the first `offset` bytes, which is the caller's from now on; null when it is not known. */
    take: (id: string, offset: number): Hash | null => {
      const known = running.get(id);
      running.delete(id);
      if (known?.offset === offset) return known.hash;
      return offset === 0 ? createHash('sha256') : null;
    },
    keep: (id: string, hash: Hash | null, offset: number): void => {
      if (hash !== null) running.set(id, { hash, offset });
    },
  };
};

export type RunningHashes = ReturnType<typeof createRunningHashes>;

export const hashOf = async (bytes: AsyncIterable<Uint8Array>): Promise<string> => {
  const hash = createHash('sha256');
  for await (const chunk of bytes) hash.update(chunk);
  return hash.digest('hex');
};

/** Passes chunks on and hashes them on the way. */
export async function* hashing(
  chunks: AsyncIterable<Uint8Array>,
  hashes: readonly (Hash | null | undefined)[],
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    for (const hash of hashes) hash?.update(chunk);
    yield chunk;
  }
}
