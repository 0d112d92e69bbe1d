import type { Alias, Item } from './item.ts';

export interface Dependency {
  readonly key: string;
  readonly on: string;
}

/** Follows aliases of aliases: an array's element's table. */
const resolver = (aliases: readonly Alias[]): ((key: string) => string) => {
  const known = new Map(aliases.map(({ key, of }) => [key, of]));
  return (key) => {
    let found = key;
    for (let depth = 0; depth < 8; depth += 1) {
      const next = known.get(found);
      if (next === undefined) break;
      found = next;
    }
    return found;
  };
};

const before = (a: Item, b: Item): number => a.rank - b.rank || (a.name < b.name ? -1 : 1);

const waitsOf = (
  items: readonly Item[],
  dependencies: readonly Dependency[],
  aliases: readonly Alias[],
): Map<string, Set<string>> => {
  const resolve = resolver(aliases);
  const waits = new Map(items.map(({ key }) => [key, new Set<string>()]));
  for (const { key, on } of dependencies) {
    const [from, to] = [resolve(key), resolve(on)];
    if (from !== to && waits.has(to)) waits.get(from)?.add(to);
  }
  return waits;
};

/** The place in a sorted list before which an item goes. */
const placeOf = (sorted: readonly Item[], item: Item): number => {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const there = sorted[middle];
    if (there !== undefined && before(there, item) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
};

/** For each object those that wait for it. */
const waitersOf = (items: readonly Item[], waits: ReadonlyMap<string, ReadonlySet<string>>): Map<string, Item[]> => {
  const waiters = new Map(items.map(({ key }): [string, Item[]] => [key, []]));
  for (const item of items) for (const on of waits.get(item.key) ?? []) waiters.get(on)?.push(item);
  return waiters;
};

/**
 * Each object after what it needs, and otherwise by rank and name, so that the same schema gives the same text. Where
 * objects need each other, rank decides; what remains of that (functions in atomic form that call each other through a
 * view) no order can make.
 */
export const inOrder = (
  items: readonly Item[],
  dependencies: readonly Dependency[],
  aliases: readonly Alias[],
): readonly Item[] => {
  const waits = waitsOf(items, dependencies, aliases);
  const waiters = waitersOf(items, waits);
  const left = new Set(items.toSorted(before));
  const ready = [...left].filter(({ key }) => waits.get(key)?.size === 0);
  const done: Item[] = [];
  const release = (waiter: Item, key: string): void => {
    const open = waits.get(waiter.key);
    if (open?.delete(key) && open.size === 0 && left.has(waiter)) ready.splice(placeOf(ready, waiter), 0, waiter);
  };
  while (left.size > 0) {
    const next = ready.shift() ?? left.values().next().value;
    if (next === undefined) break;
    left.delete(next);
    done.push(next);
    for (const waiter of waiters.get(next.key) ?? []) release(waiter, next.key);
  }
  return done;
};
