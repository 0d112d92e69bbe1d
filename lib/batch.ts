import { setTimeout as rest } from 'node:timers/promises';
import { isDependencyFailure } from './errors.ts';

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result | Promise<Result>) => void;
  readonly reject: (error: unknown) => void;
}

/** Collects single calls into bulk ones: what arrives while one bulk call runs goes out together in the next. */
export interface Batcher<Item, Result> {
  /** Resolves with this item's own result once the bulk call that carried it is done. */
  readonly add: (item: Item) => Promise<Result>;
  /** Resolves when nothing is waiting or under way. */
  readonly idle: () => Promise<void>;
}

export interface BatchOptions<Item> {
  /** The largest number of items in one bulk call. */
  readonly max?: number;
  /** The largest size of the items of one bulk call together, by `sizeOf`; one that is larger by itself goes alone. */
  readonly maxSize?: number;
  /** Left out: sizes do not count. */
  readonly sizeOf?: (item: Item) => number;
  /**
   * The pause after a bulk call, for items without a waiting caller: more items share a call. The first after a silence
   * goes at once. 0: no pause.
   */
  readonly restMs?: number;
  /** Each bulk call waits so long before it goes: work without a waiting caller makes way for work with one. */
  readonly lingerMs?: number;
  /**
   * The first after a silence goes within its own turn of the event loop, alone: for items that seldom come in numbers.
   */
  readonly eager?: boolean;
}

/**
 * @param flush one bulk call; answers a result for each item, in order. A slow one does not delay the next.
 * @param flush one bulk call; answers a result for each item, in order. What still takes its time does not hold up the
 * next.
 */
export const createBatcher = <Item, Result>(
  flush: (items: readonly Item[]) => Promise<readonly (Result | Promise<Result>)[]>,
  { max = 500, maxSize = Infinity, sizeOf, restMs = 0, lingerMs = 0, eager = false }: BatchOptions<Item> = {},
): Batcher<Item, Result> => {
  const waiting: Waiting<Item, Result>[] = [];
  let running: Promise<void> | undefined;

  /** How many of those that wait fit into one bulk call; at least one. */
  const fitting = (): number => {
    if (sizeOf === undefined) return max;
    let [count, size] = [0, 0];
    for (const { item } of waiting) {
      size += sizeOf(item);
      if (count === max || (count > 0 && size > maxSize)) break;
      count += 1;
    }
    return count;
  };

  const flushOnce = async (): Promise<void> => {
    const taken = waiting.splice(0, fitting());
    try {
      const results = await flush(taken.map((w) => w.item));
      taken.forEach((w, i) => w.resolve(results[i] as Result));
    } catch (error) {
      for (const w of taken) w.reject(error);
    }
  };

  const drain = async (): Promise<void> => {
    // One turn of the event loop: the requests that were read together go out together.
    if (!eager) await new Promise(setImmediate);
    while (waiting.length > 0) {
      if (lingerMs > 0) await rest(lingerMs);
      await flushOnce();
      if (restMs > 0) await rest(restMs);
    }
    running = undefined;
  };

  return {
    add: (item) =>
      new Promise((resolve, reject) => {
        waiting.push({ item, resolve, reject });
        running ??= drain();
      }),
    idle: async () => {
      while (running !== undefined) await running;
    },
  };
};

/** One bulk call; it returns a result for each item, in order. */
export type BulkCall<Item, Result> = (items: readonly Item[]) => Promise<readonly Result[]>;

/**
 * A bulk call in which one refused item does not hold up the others: a batch that is refused is split into halves, and
 * those again, down to the item itself, for which `refused` has the last word. One such item among 500 costs 18 further
 * calls. A failure of a dependency concerns all items and is thrown.
 */
export const splitRefused = <Item, Result>(
  call: BulkCall<Item, Result>,
  refused: (item: Item, error: unknown) => Promise<Result>,
): BulkCall<Item, Result> => {
  const callOrSplit: BulkCall<Item, Result> = async (items) => {
    try {
      return await call(items);
    } catch (error) {
      const [item] = items;
      if (item === undefined || isDependencyFailure(error)) throw error;
      if (items.length === 1) return [await refused(item, error)];
      const middle = Math.ceil(items.length / 2);
      const first = await callOrSplit(items.slice(0, middle));
      return [...first, ...(await callOrSplit(items.slice(middle)))];
    }
  };
  return callOrSplit;
};
