import { LRUCache } from 'lru-cache';

/** How often something was used lately: counted whole at once, half after each half-life. */
export interface Use {
  score: number;
  /** When the score was right, in ms. */
  at: number;
}

const halfLifeMs = 15_000;
const maxKept = 20_000;

const agedTo = ({ score, at }: Use, now: number): number => score * 2 ** ((at - now) / halfLifeMs);

/** Counts one use. */
export const noteUse = (use: Use, now: number): void => {
  use.score = agedTo(use, now) + 1;
  use.at = now;
};

/** The uses by name, also of what is not there just now; those not asked for longest are forgotten. */
export const createUses = (): ((name: string) => Use) => {
  const uses = new LRUCache<string, Use>({ max: maxKept });
  return (name) => {
    const present = uses.get(name);
    if (present) return present;
    const fresh = { score: 0, at: 0 };
    uses.set(name, fresh);
    return fresh;
  };
};

/** The one that was used least of late, the first of several. */
export const leastUsed = <T>(all: Iterable<T>, useOf: (one: T) => Use, now: number): T | undefined => {
  let [min, lowest]: [T | undefined, number] = [undefined, Number.POSITIVE_INFINITY];
  for (const one of all) {
    const score = agedTo(useOf(one), now);
    if (score < lowest) [min, lowest] = [one, score];
  }
  return min;
};
