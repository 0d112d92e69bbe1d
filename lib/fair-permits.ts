/** Permits for callers in groups, of which none can keep the others waiting for long. */
export interface FairPermits {
  /**
   * @param signal when it is aborted while the caller waits, the caller has no place in the line any more
   * @throws what `refusal` makes, when there is no permit within the time or too many wait; the reason of `signal`
   */
  readonly acquire: (group: string, signal?: AbortSignal) => Promise<void>;
  readonly release: (group: string) => void;
}

export interface FairPermitsOptions {
  /** At a time, of all groups together. */
  readonly total: number;
  /** At a time, of one group. */
  readonly each: number;
  /** The waiting requests of one group. */
  readonly maxWaiting: number;
  readonly waitMs: number;
  readonly refusal: () => Error;
}

interface Group {
  inUse: number;
  /** The number of its last permit, counted from 1. */
  last: number;
  readonly waiting: Set<() => void>;
}

type Groups = Map<string, Group>;

const comesBefore = (a: Group, b: Group): boolean => a.inUse < b.inUse || (a.inUse === b.inUse && a.last < b.last);

const neediest = (groups: Iterable<Group>, each: number): Group | undefined => {
  let best: Group | undefined;
  for (const group of groups) {
    if (group.waiting.size > 0 && group.inUse < each && (best === undefined || comesBefore(group, best))) best = group;
  }
  return best;
};

const forgetIdle = (groups: Groups, name: string): void => {
  const group = groups.get(name);
  if (group?.inUse === 0 && group.waiting.size === 0) groups.delete(name);
};

/**
 * A permit that is given back goes to the group that holds the fewest; among equals to the one that had one longest
 * ago.
 */
export const createFairPermits = ({ total, each, maxWaiting, waitMs, refusal }: FairPermitsOptions): FairPermits => {
  let [inUse, given] = [0, 0];
  const groups: Groups = new Map();

  const take = (group: Group): void => {
    inUse += 1;
    group.inUse += 1;
    given += 1;
    group.last = given;
  };

  const wait = (name: string, group: Group, signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', leave);
      };
      const give = (): void => {
        settle();
        resolve();
      };
      const stepOut = (why: Error): void => {
        settle();
        group.waiting.delete(give);
        forgetIdle(groups, name);
        reject(why);
      };
      const leave = (): void => stepOut(signal?.reason as Error);
      const timer = setTimeout(() => stepOut(refusal()), waitMs);
      signal?.addEventListener('abort', leave, { once: true });
      group.waiting.add(give);
    });

  const passOn = (): void => {
    const group = neediest(groups.values(), each);
    const [give] = group?.waiting ?? [];
    if (group === undefined || give === undefined) return;
    group.waiting.delete(give);
    take(group);
    give();
  };

  return {
    acquire: async (name, signal) => {
      signal?.throwIfAborted();
      const group = groups.get(name) ?? { inUse: 0, last: 0, waiting: new Set() };
      groups.set(name, group);
      if (inUse < total && group.inUse < each) return take(group);
      if (group.waiting.size >= maxWaiting) {
        forgetIdle(groups, name);
        throw refusal();
      }
      return wait(name, group, signal);
    },
    release: (name) => {
      const group = groups.get(name);
      if (group === undefined || group.inUse === 0) return;
      inUse -= 1;
      group.inUse -= 1;
      forgetIdle(groups, name);
      passOn();
    },
  };
};
