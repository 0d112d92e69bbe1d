import type { Redis } from 'ioredis';
import type { Log } from '#lib/log.ts';

/** Projects whose tables were written to, so that their events are taken at once and not at the next poll. */
interface DirtyMarks {
  /**
   * Notifies the relay; never fails, since polling finds the others later. Many in a row are one. Write paths call it
   * after the commit, and do not wait for it: the mark is set some ms later.
   */
  readonly markDirty: (projectId: string) => Promise<void>;
}

interface DirtyMarksOptions {
  readonly redis: Redis;
  /** The prefix of all keys (`PLINTH_REDIS_PREFIX`). */
  readonly prefix: string;
  readonly log: Log;
}

/** The set of marked projects, by the time of the mark. */
export const dirtyKey = (prefix: string): string => `${prefix}:events:dirty`;

/** A project that is written to all the time is marked that often by each process. */
const everyMs = 20;

export const createDirtyMarks = ({ redis, prefix, log }: DirtyMarksOptions): DirtyMarks => {
  const waiting = new Map<string, Promise<void>>();
  const mark = async (projectId: string): Promise<void> => {
    try {
      await redis.zadd(dirtyKey(prefix), 'NX', Date.now(), projectId);
    } catch (error) {
      log.debug(
        { err: error, project_id: projectId },
        'a project could not be marked for the relay; polling finds its events',
      );
    }
  };
  return {
    markDirty: (projectId) => {
      const present = waiting.get(projectId);
      if (present) return present;
      // The mark comes last: what is committed until then is covered by it.
      const marked = new Promise<void>((resolve) => {
        setTimeout(() => {
          waiting.delete(projectId);
          resolve(mark(projectId));
        }, everyMs).unref();
      });
      waiting.set(projectId, marked);
      return marked;
    },
  };
};

/** Signals that events wait in the control database, so that they are fanned out at once and not at the next poll. */
export interface WaitingMarks {
  /** After the commit; never fails, since polling finds other events within a second. Many at a time are one. */
  readonly markWaiting: () => void;
}

interface WaitingMarksOptions {
  readonly redis: Redis;
  /** The prefix of all keys (`PLINTH_REDIS_PREFIX`). */
  readonly prefix: string;
  readonly log: Log;
}

/** Holds one member while there is work: `bzpopmin` wakes one waiting process. */
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
