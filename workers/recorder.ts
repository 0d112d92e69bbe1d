import { type LogPart, insertLogParts, setProgress } from '#domain/jobs/logs.ts';
import {
  type BrokenRun,
  type Resumption,
  handBack,
  parkJob,
  resumeJob,
  retryByPolicy,
  retryLater,
} from '#domain/jobs/changes.ts';
import { type Asleep, type Sleep, goToSleep } from '#domain/jobs/steps.ts';
import {
  type JobEnd,
  type JobStart,
  type RecordedEnds,
  type StartedJob,
  recordEnds,
  startJobs,
} from '#domain/jobs/store.ts';
import { createBatcher, splitRefused } from '#lib/batch.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { retryEachUntilDone, retryUntilDone } from './retry-until-done.ts';

/** Writes what happens to jobs into Postgres, many at a time, however long Postgres is away. */
export interface Recorder {
  /** Null: the job may not run (see `startJobs`). */
  readonly begin: (start: JobStart) => Promise<StartedJob | null>;
  /** Whether events for webhooks were left, by this end or one that was recorded with it. */
  readonly end: (end: JobEnd) => Promise<{ readonly hasEvents: boolean }>;
  readonly retry: (run: BrokenRun, delayMs: number) => Promise<boolean>;
  /** After an attempt that user code failed; its report becomes a record of its own. */
  readonly retryByPolicy: (run: Parameters<typeof retryByPolicy>[1], delayMs: number) => Promise<boolean>;
  readonly handBack: (run: Pick<BrokenRun, 'id' | 'runId'>) => Promise<boolean>;
  /** False: the job was not running under this run any more. */
  readonly park: (run: Pick<BrokenRun, 'id' | 'runId'>, maxMs: number) => Promise<boolean>;
  /** Undefined: the job was not running under this run any more. */
  readonly sleep: (sleep: Sleep) => Promise<Asleep | undefined>;
  /** False: the job is not parked any more. */
  readonly resume: (jobId: string, how: Resumption) => Promise<boolean>;
  /** For present listeners: lost when Postgres is away. */
  readonly progress: (jobId: string, percent: number) => void;
  /** Resolves when the part is written, or lost. */
  readonly log: (part: LogPart) => Promise<void>;
  /** Resolves when the lines for listeners are written, or lost. */
  readonly idle: () => Promise<void>;
}

/**
 * Lines are out of the way of the answers that the same jobs give meanwhile; a process that dies takes the last along.
 */
const lineLingerMs = 5;
const maxPartsAtOnce = 50;
/**
 * Text of one statement, in characters: a statement is made in one piece, while the event loop does nothing else. A
 * part of a log may have 500,000 characters, so that 50 parts would be 25 MB; the end of a run has its result and its
 * log twice.
 */
const maxCharacters = 2_000_000;
const progressEveryMs = 100;

/** The bytes of a line beside its message: its time, its level and their names. */
const lineCharacters = 64;

const charactersOfPart = ({ lines }: LogPart): number =>
  lines.reduce(
    (sum, { message, fields }) => sum + message.length + (fields ? JSON.stringify(fields).length : 0) + lineCharacters,
    0,
  );

const charactersOfEnd = ({ outcome: { result, report } }: JobEnd): number =>
  (result?.length ?? 0) + (report?.length ?? 0);

type LoseIt = (error: unknown) => void;

/**
 * Keeps the last word of each running job, for all of them in one statement; it goes with the job's end in any case.
 */
const createProgress = (db: ControlDb, loseIt: LoseIt) => {
  const last = new Map<string, number>();
  /** However often a job says something, it waits once. */
  const waiting = new Set<string>();
  const written = createBatcher<string, void>(
    async (jobIds) => {
      for (const jobId of jobIds) waiting.delete(jobId);
      // A row that is missing belongs to a job that has ended.
      const known = jobIds.map((jobId) => [jobId, last.get(jobId)] as const);
      const percents = new Map(known.flatMap(([jobId, percent]) => (percent === undefined ? [] : [[jobId, percent]])));
      if (percents.size > 0) await setProgress(db, percents);
      return jobIds.map(() => undefined);
    },
    { lingerMs: progressEveryMs },
  );
  return {
    note: (jobId: string, percent: number): void => {
      last.set(jobId, percent);
      if (waiting.has(jobId)) return;
      waiting.add(jobId);
      written.add(jobId).catch(loseIt);
    },
    take: (jobId: string): number | undefined => {
      const percent = last.get(jobId);
      last.delete(jobId);
      return percent;
    },
    idle: written.idle,
  };
};

const unrecordable = { code: 'internal', message: 'How the job ended could not be recorded.' };

/** The refused end is recorded as a failure, so that the job does not stay running. */
const recordRefused = async (db: ControlDb, log: Log, end: JobEnd, error: unknown): Promise<RecordedEnds> => {
  log.error({ err: error, job_id: end.id }, 'Postgres refused the end of a job');
  const outcome = { status: 'failed', result: null, error: unrecordable } as const;
  return recordEnds(db, [{ ...end, progress: undefined, outcome }]);
};

const createStarts = (db: ControlDb, log: Log) => {
  const startAll = async (items: readonly JobStart[]): Promise<(StartedJob | null)[]> => {
    const rows = await startJobs(db, items, 'start-jobs');
    // By the start and not by the job: it may have been delivered twice, and only one of the two may run it.
    const started = new Map(rows.map((job) => [job.run_id, job]));
    return items.map(({ runId }) => started.get(runId) ?? null);
  };
  return createBatcher(
    retryEachUntilDone(
      log,
      'recording the starts of jobs',
      splitRefused(startAll, async (start, error) => {
        log.error({ err: error, job_id: start.id }, 'Postgres refused the start of a job');
        return null;
      }),
    ),
    // BullMQ hands jobs over one by one.
    { eager: true },
  );
};

const createEnds = (db: ControlDb, log: Log) => {
  const endAll = async (items: readonly JobEnd[]): Promise<RecordedEnds[]> => {
    const recorded = await recordEnds(db, items, 'record-ends');
    return items.map(() => recorded);
  };
  return createBatcher<JobEnd, RecordedEnds>(
    retryEachUntilDone<JobEnd, RecordedEnds>(
      log,
      'recording the ends of jobs',
      splitRefused<JobEnd, RecordedEnds>(endAll, (end, error) => recordRefused(db, log, end, error)),
    ),
    { maxSize: maxCharacters, sizeOf: charactersOfEnd },
  );
};

/** @param db whose sessions have the settings `byIndexOnly` */
export const createRecorder = (db: ControlDb, log: Log): Recorder => {
  const starts = createStarts(db, log);
  const ends = createEnds(db, log);
  const lines = createBatcher<LogPart, void>(
    async (items) => {
      await insertLogParts(db, items);
      return items.map(() => undefined);
    },
    { max: maxPartsAtOnce, maxSize: maxCharacters, sizeOf: charactersOfPart, lingerMs: lineLingerMs },
  );
  const note =
    (what: string): LoseIt =>
    (error) =>
      log.debug({ err: error }, `${what} of a job was lost`);
  const progress = createProgress(db, note('the progress'));
  return {
    begin: starts.add,
    end: (end) => ends.add({ ...end, progress: progress.take(end.id) }),
    retry: (run, delayMs) => {
      progress.take(run.id);
      return retryUntilDone(log, 'putting back a job', () => retryLater(db, run, delayMs));
    },
    retryByPolicy: (run, delayMs) => {
      progress.take(run.id);
      return retryUntilDone(log, 'putting back a job', () => retryByPolicy(db, run, delayMs));
    },
    handBack: (run) => {
      progress.take(run.id);
      return retryUntilDone(log, 'handing back a job', () => handBack(db, run));
    },
    park: (run, maxMs) => {
      progress.take(run.id);
      return retryUntilDone(log, 'parking a job', () => parkJob(db, run, maxMs));
    },
    sleep: (sleep) => {
      progress.take(sleep.id);
      return retryUntilDone(log, 'putting a run to sleep', () => goToSleep(db, sleep));
    },
    resume: (jobId, how) => retryUntilDone(log, 'resuming a job', () => resumeJob(db, jobId, how)),
    progress: progress.note,
    log: (part) => lines.add(part).catch(note('a part of the log')),
    idle: async () => {
      await Promise.all([progress.idle(), lines.idle()]);
    },
  };
};
