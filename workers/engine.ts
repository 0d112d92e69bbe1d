import { noteGlobalSettings } from '#domain/jobs/limits.ts';
import { type Queues, openQueues } from '#domain/jobs/open.ts';
import { byIndexOnly } from '#domain/jobs/store.ts';
import type { Config } from '#lib/config.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { refuseEviction } from '#lib/redis.ts';
import type { JobDefinition } from '#queues/define.ts';
import { globalSettingOf } from '#queues/settings.ts';
import { serveShards } from './queue-shards.ts';
import type { Processors } from './processor.ts';
import { createRecorder } from './recorder.ts';
import { trackRunning } from './running.ts';

const lastWordMs = 1000;
/** Starts, ends, and log lines with progress: each has one statement at a time. */
const recorderConnections = 3;

export interface EngineOptions {
  readonly config: Config;
  readonly log: Log;
  readonly db: ControlDb;
  /** The kinds of jobs that there are. */
  readonly jobs: readonly JobDefinition[];
  /** The job types that this worker runs; left out: all. */
  readonly served?: readonly JobDefinition[];
  readonly processors: Processors;
  /** Ends were recorded here that left events for webhooks. */
  readonly onEvents?: () => void;
}

/** The part of a worker that takes jobs and records their ends. */
export interface Engine {
  /** Names this process in the rows of the jobs that it runs. */
  readonly workerId: string;
  readonly queues: Queues;
  /** Takes no more jobs; within DRAIN_MS the running ones have ended or were handed back. */
  readonly drain: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/**
 * A global limit holds for all workers alike, so Postgres stores it; a change that the gate misses is read within half
 * a minute.
 */
const noteGlobalLimits = async ({ config, db, log, ...options }: EngineOptions, { gate }: Queues): Promise<void> => {
  const types = (options.served ?? options.jobs).map(({ type }) => type);
  const settings = new Map(types.map((type) => [type, globalSettingOf(type, config)]));
  try {
    const changed = await noteGlobalSettings(db, settings);
    if (changed.length > 0)
      log.warn({ types: changed }, 'the global limits of this worker replace those of an earlier one');
    await Promise.all(types.map((type) => gate.rulesChanged({ type })));
  } catch (error) {
    log.warn({ err: error }, 'the global limits of this worker could not be written; trying again later');
  }
};

/** Takes jobs from when it resolves. */
export const startEngine = async (options: EngineOptions): Promise<Engine> => {
  const { config, log, db, processors } = options;
  const queues = openQueues(options);
  const { gate, rules, outcomes, answers, signals, subscriber } = queues;
  await refuseEviction(queues.redis);
  await noteGlobalLimits(options, queues);
  const running = trackRunning();
  await subscriber.onCancel((jobId) => running.stop(jobId, 'cancelled'));
  const workerId = newId();
  const recorderDb = openControlDb({
    url: config.DATABASE_URL,
    connections: recorderConnections,
    log,
    settings: byIndexOnly,
  });
  const recorder = createRecorder(recorderDb, log);
  const deps = {
    db,
    log,
    workerId,
    outcomes,
    answers,
    signals,
    recorder,
    jobs: options.served ?? options.jobs,
    processors,
    running,
    onEvents: options.onEvents,
  };
  const shards = serveShards({ config, db, log, gate, rules, deps });
  await shards.ready();
  return {
    workerId,
    queues,
    drain: async () => {
      // Shortly before the process would end anyway: what still runs can then say how it ended.
      const late = setTimeout(() => running.stopAll('drain'), Math.max(0, config.DRAIN_MS - lastWordMs));
      await shards.drain();
      clearTimeout(late);
      await recorder.idle();
    },
    close: async () => {
      await shards.close();
      await queues.close();
      await recorderDb.close();
    },
  };
};
