import { type JobEnd, type JobStart, markStarted, recordEnds } from '#domain/jobs/store.ts';
import { createBatcher } from '#lib/batch.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';

/** Writes what happens to jobs into Postgres, many at a time. */
export interface Recorder {
  /** Fire and forget, and only for jobs that take a while: the record of the end tells of the start, too. */
  readonly started: (start: JobStart) => void;
  /** Resolves once Postgres has it, however long Postgres is away. */
  readonly ended: (end: JobEnd) => Promise<void>;
  /** Gives up what Postgres could not take: the outcomes stay in Redis and are recorded by whoever gets the job next. */
  readonly close: () => Promise<void>;
}

const slowestRetryMs = 2000;
// Most jobs are over by then, which saves them a statement.
const startDelayMs = 50;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export const createRecorder = (db: ControlDb, log: Log): Recorder => {
  let open = true;
  const running = new Map<string, NodeJS.Timeout>();

  const persist = async (ends: readonly JobEnd[]): Promise<readonly void[]> => {
    for (let delayMs = 50; ; delayMs = Math.min(delayMs * 2, slowestRetryMs)) {
      try {
        await recordEnds(db, ends);
        return ends.map(() => undefined);
      } catch (error) {
        if (!open) throw error;
        log.warn({ err: error, jobs: ends.length }, 'the ends of jobs could not be recorded; trying again');
        await pause(delayMs);
      }
    }
  };

  const starts = createBatcher<JobStart, void>(async (items) => {
    await markStarted(db, items);
    return items.map(() => undefined);
  });
  const ends = createBatcher<JobEnd, void>(persist);

  const noteStart = (start: JobStart): void => {
    running.delete(start.id);
    starts.add(start).catch((error: unknown) => log.debug({ err: error }, 'the start of a job was not recorded'));
  };

  return {
    started: (start) => {
      running.set(start.id, setTimeout(noteStart, startDelayMs, start));
    },
    ended: (end) => {
      clearTimeout(running.get(end.id));
      running.delete(end.id);
      return ends.add(end);
    },
    close: async () => {
      open = false;
      for (const timer of running.values()) clearTimeout(timer);
      await Promise.all([starts.idle(), ends.idle()]);
    },
  };
};
