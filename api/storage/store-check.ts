import { answersWithin } from '#lib/answers-within.ts';
import { cachedFor } from '#lib/cached-for.ts';
import type { ObjectStore } from '#lib/object-store/object-store.ts';

const checkTimeoutMs = 1500;

// Every probe of every load balancer would be a request to S3 otherwise, which costs money there.
const freshMs = 5000;

/**
 * Whether the object store answers. A check of a disk that hangs cannot be ended and holds a thread of the process: the
 * next ones wait for it in place of another thread.
 */
export const createStoreCheck = (store: Pick<ObjectStore, 'check'>): (() => Promise<boolean>) => {
  let running: Promise<void> | undefined;
  const ask = (signal: AbortSignal): Promise<void> =>
    (running ??= store.check(signal).finally(() => {
      running = undefined;
    }));
  return cachedFor(freshMs, async () => {
    const over = new AbortController();
    try {
      return await answersWithin(ask(over.signal), checkTimeoutMs);
    } finally {
      over.abort();
    }
  });
};
