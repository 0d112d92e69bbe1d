interface Stoppable {
  readonly stop: () => Promise<void>;
}

/** The platforms that the files of one process share, by a text that says how each was started. */
export interface SharedRunning<T extends Stoppable> {
  /** The one that runs, or a new one; a start that failed is tried again by whoever asks next. */
  readonly get: (key: string, start: () => Promise<T>) => Promise<T>;
  readonly stop: () => Promise<void>;
}

export const createShared = <T extends Stoppable>(): SharedRunning<T> => {
  const running = new Map<string, Promise<T>>();
  return {
    get: (key, start) => {
      const known = running.get(key);
      if (known !== undefined) return known;
      const starting = start();
      running.set(key, starting);
      starting.catch(() => running.delete(key));
      return starting;
    },
    stop: async () => {
      const started = await Promise.allSettled(running.values());
      running.clear();
      await Promise.all(started.flatMap((one) => (one.status === 'fulfilled' ? [one.value.stop()] : [])));
    },
  };
};

const stops: (() => Promise<void>)[] = [];
let isGroup = false;

/** From now on the files of this process may share, until `stopShared`. */
export const beginSharing = (): void => void (isGroup = true);

/** False in the process of a single file: nobody would stop what it shares. */
export const canShare = (): boolean => isGroup;

/** `stop` is called when the last file of the process has ended. */
export const atEndOfSharing = (stop: () => Promise<void>): void => void stops.push(stop);

export const stopShared = async (): Promise<void> => {
  await Promise.all(stops.map((stop) => stop()));
};
