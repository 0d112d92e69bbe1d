/** A fixed number of permits; who gets none in time is refused. */
export interface Permits {
  readonly acquire: () => Promise<void>;
  readonly release: () => void;
}

/**
 * @param refusal the error of a waiter that got no permit within `waitMs`
 * @param refusal what a waiter that got no permit within `waitMs` is told
 */
export const createPermits = (count: number, waitMs: number, refusal: () => Error): Permits => {
  let free = count;
  const waiting = new Set<() => void>();

  const wait = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const give = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(give);
        reject(refusal());
      }, waitMs);
      waiting.add(give);
    });

  return {
    acquire: () => {
      if (free === 0) return wait();
      free -= 1;
      return Promise.resolve();
    },
    release: () => {
      const [next] = waiting;
      if (next === undefined) {
        free += 1;
        return;
      }
      waiting.delete(next);
      next();
    },
  };
};
