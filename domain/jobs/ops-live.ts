import type { Overview, Snapshot } from './ops-overview.ts';

/** One who listens to the snapshots: gets each as it is made, or null when it could not be made. */
export type Listener = (snapshot: Snapshot | null) => void;

export interface Live {
  /** @returns stops listening */
  readonly listen: (listener: Listener) => () => void;
}

const everyMs = 1000;

/** One snapshot a second for all listeners; without listeners nothing runs. */
export const createLive = ({ snapshot }: Pick<Overview, 'snapshot'>): Live => {
  const listeners = new Set<Listener>();
  let timer: NodeJS.Timeout | undefined;
  let busy = false;

  const notify = async (): Promise<void> => {
    if (busy) return;
    busy = true;
    const made = await snapshot().catch(() => null);
    busy = false;
    for (const listener of listeners) listener(made);
  };

  return {
    listen: (listener) => {
      listeners.add(listener);
      timer ??= setInterval(() => void notify(), everyMs);
      void notify();
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
  };
};
