import { setTimeout as pause } from 'node:timers/promises';
import { isTooSlow } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { createSerializer } from '#lib/serialize.ts';

const firstPauseMs = 50;
const slowestPauseMs = 2000;

/** For what must not be lost: tried until it works, since Postgres and Redis come back. */
export const retryUntilDone = async <T>(log: Log, what: string, work: () => Promise<T>): Promise<T> => {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, slowestPauseMs)) {
    try {
      return await work();
    } catch (error) {
      log.warn({ err: error }, `${what} failed; trying again`);
      await pause(pauseMs);
    }
  }
};

/** One statement of Postgres for a batch; it returns a result for each item, in order. */
export type BulkWork<Item, Result> = (items: readonly Item[]) => Promise<readonly Result[]>;

/**
 * The same for batches of independent items: a batch that takes too long is split in halves, again and again, beside
 * the batches that come after it. An item that takes too long by itself is retried by itself, and delays only others of
 * its kind.
 * @returns bulk work whose results may come later, one by one
 */
export const retryEachUntilDone = <Item, Result>(
  log: Log,
  what: string,
  work: BulkWork<Item, Result>,
): BulkWork<Item, Result | Promise<Result>> => {
  const serialize = createSerializer();

  /** Null: they are too many at once. */
  const attempt = async (items: readonly Item[]): Promise<readonly Result[] | null> => {
    try {
      return await work(items);
    } catch (error) {
      if (items.length < 2 || !isTooSlow(error)) throw error;
      log.warn({ err: error, items: items.length }, `${what} took too long; trying halves`);
      return null;
    }
  };

  const half = async (items: readonly Item[]): Promise<readonly (Result | Promise<Result>)[]> => {
    let tries = 0;
    const results = await retryUntilDone(log, what, () =>
      // One half at a time, and one of those at a time that took too long by themselves.
      serialize(tries++ > 0 && items.length === 1 ? 'alone' : 'halves', () => attempt(items)),
    );
    return results ?? inHalves(items);
  };

  const inHalves = (items: readonly Item[]): Promise<Result>[] => {
    const middle = Math.ceil(items.length / 2);
    return [items.slice(0, middle), items.slice(middle)].flatMap((some) => {
      const results = half(some);
      return some.map(async (_, at) => (await results)[at] as Promise<Result> | Result);
    });
  };

  return async (items) => (await retryUntilDone(log, what, () => attempt(items))) ?? inHalves(items);
};
