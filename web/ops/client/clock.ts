import { useSyncExternalStore } from 'react';

const tickMs = 1000;
const clock = { now: Date.now(), listeners: new Set<() => void>(), timer: 0 };

const tick = (): void => {
  clock.now = Date.now();
  for (const listener of clock.listeners) listener();
};

/** One timer for all times of the page, which runs while there are any. */
const subscribe = (listener: () => void): (() => void) => {
  if (clock.listeners.size === 0) {
    clock.now = Date.now();
    clock.timer = setInterval(tick, tickMs);
  }
  clock.listeners.add(listener);
  return () => {
    clock.listeners.delete(listener);
    if (clock.listeners.size === 0) clearInterval(clock.timer);
  };
};

/** The present time, each second anew. */
export const useNow = (): number => useSyncExternalStore(subscribe, () => clock.now);
