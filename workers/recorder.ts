import { type BegunJob, type JobEnd, type JobStart, beginJobs, recordEnds } from '#domain/jobs/store.ts';
import { createBatcher } from '#lib/batch.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { isDependencyFailure } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { insist } from './insist.ts';

/** Writes what happens to jobs into Postgres, many at a time, however long Postgres is away. */
export interface Recorder {
  /** Null: the job may not run, it was taken back or has ended. */
  readonly begin: (start: JobStart) => Promise<BegunJob | null>;
  readonly end: (end: JobEnd) => Promise<void>;
}

const unrecordable = { code: 'internal', message: 'How the job ended could not be recorded.' };

/** What Postgres refuses must not hold up the ends of other jobs: each is recorded by itself, the bad one as failed. */
const recordEach = async (db: ControlDb, log: Log, items: readonly JobEnd[]): Promise<void> => {
  for (const end of items) {
    await recordEnds(db, [end]).catch((error: unknown) => {
      if (isDependencyFailure(error)) throw error;
      log.error({ err: error, job_id: end.id }, 'Postgres refused the end of a job');
      return recordEnds(db, [{ ...end, outcome: { status: 'failed', result: null, error: unrecordable } }]);
    });
  }
};

export const createRecorder = (db: ControlDb, log: Log): Recorder => {
  const starts = createBatcher<JobStart, BegunJob | null>((items) =>
    insist(log, 'recording the starts of jobs', async () => {
      const begun = new Map((await beginJobs(db, items)).map((job) => [job.id, job]));
      return items.map(({ id }) => begun.get(id) ?? null);
    }),
  );
  const ends = createBatcher<JobEnd, void>((items) =>
    insist(log, 'recording the ends of jobs', async () => {
      await recordEnds(db, items).catch((error: unknown) => {
        if (isDependencyFailure(error)) throw error;
        return recordEach(db, log, items);
      });
      return items.map(() => undefined);
    }),
  );
  return { begin: starts.add, end: ends.add };
};
