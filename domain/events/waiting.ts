import type { Redis } from 'ioredis';
import type { Log } from '#lib/log.ts';

/** Says that events wait in the control database, so that they are passed on at once and not at the next look. */
export interface WaitingMarks {
  /** After the commit; never fails, since what is not told is found within a second. Many at a time are one. */
  readonly markWaiting: () => void;
}

export interface WaitingMarksOptions {
  readonly redis: Redis;
  /** The prefix of all keys (`PLINTH_REDIS_PREFIX`). */
  readonly prefix: string;
  readonly log: Log;
}

/** Holds one member while somebody is to look: `bzpopmin` wakes one who waits for it. */
export const waitingKey = (prefix: string): string => `${prefix}:events:waiting`;

export const createWaitingMarks = ({ redis, prefix, log }: WaitingMarksOptions): WaitingMarks => {
  let isMarking = false;
  let isRequested = false;
  const mark = async (): Promise<void> => {
    isMarking = true;
    do {
      isRequested = false;
      await redis
        .zadd(waitingKey(prefix), 'NX', Date.now(), 'some')
        .catch((error: unknown) =>
          log.debug({ err: error }, 'the fan-out could not be woken; polling finds the waiting events'),
        );
    } while (isRequested);
    isMarking = false;
  };
  return {
    markWaiting: () => {
      if (isMarking) isRequested = true;
      else void mark();
    },
  };
};
