import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '#lib/log.ts';

const firstPauseMs = 50;
const slowestPauseMs = 2000;

/** For what must not be lost: tried until it works, since Postgres and Redis come back. */
export const insist = async <T>(log: Log, what: string, work: () => Promise<T>): Promise<T> => {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, slowestPauseMs)) {
    try {
      return await work();
    } catch (error) {
      log.warn({ err: error }, `${what} failed; trying again`);
      await pause(pauseMs);
    }
  }
};
