import { type ComponentType, type LazyExoticComponent, lazy } from 'react';
import { untilReachable } from './reach.ts';

const maxAttempts = 3;

/** Files are missing while the platform is restarted, and for good once it serves another build. */
const loaded = async <T>(load: () => Promise<T>): Promise<T> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      // oxlint-disable-next-line no-await-in-loop -- one attempt at a time
      return await load();
    } catch (error) {
      if (attempt === maxAttempts) throw error;
      // oxlint-disable-next-line no-await-in-loop -- as above
      await untilReachable();
    }
  }
};

/** A component whose code is loaded when it is shown first; while the platform is unreachable, it waits. */
export const part = <P>(load: () => Promise<ComponentType<P>>): LazyExoticComponent<ComponentType<P>> =>
  lazy(async () => ({ default: await loaded(load) }));
