import { LRUCache } from 'lru-cache';
import type { SubscriptionsDeps } from '#domain/events/subscriptions.ts';
import { subscribeSteps } from '#domain/webhooks/subscriptions.ts';
import {
  type AsleepOfProject,
  type KnownSteps,
  type StepRecord,
  type StepRun,
  asleepOf,
  beginSteps,
  maxStepBytes,
  recordSteps,
} from '#domain/jobs/steps.ts';
import type { WaitingBytes } from '#domain/jobs/accept.ts';
import { createBatcher } from '#lib/batch.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { retryEachUntilDone, retryUntilDone } from '../../retry-until-done.ts';

/** Writes what the steps of runs come to into Postgres, however long it is away. */
export interface StepRecorder {
  /** Whether a run of the function had steps in this process. */
  readonly isStepped: (functionId: string) => boolean;
  /** Undefined: the run is not its job's any more. */
  readonly begin: (run: StepRun & { readonly functionId: string }) => Promise<KnownSteps | undefined>;
  /** False: its run is not its job's any more. */
  readonly record: (step: StepRecord) => Promise<boolean>;
  /** A step waits for an event of the project's own database. */
  readonly subscribe: (projectId: string) => Promise<void>;
  /** Whether another run of a project may sleep, by what it was some seconds ago. */
  readonly hasRoom: (projectId: string) => Promise<boolean>;
}

const countedForMs = 10_000;
const maxProjects = 1000;
const maxFunctions = 10_000;

/** How much of a project may sleep. */
interface SleepLimits {
  readonly runs: number;
  /** The size of payloads and results. */
  readonly bytes: WaitingBytes;
}

export interface StepRecorderOptions extends SubscriptionsDeps {
  /** Its sessions have the settings `byIndexOnly`. */
  readonly stepsDb: Queryable;
  readonly log: Log;
  readonly limits: SleepLimits;
}

export const createStepRecorder = ({ db, stepsDb, servers, log, limits }: StepRecorderOptions): StepRecorder => {
  const records = createBatcher<StepRecord, boolean>(
    retryEachUntilDone(log, 'recording steps', (steps) => recordSteps(stepsDb, steps)),
    {
      maxSize: maxStepBytes,
      sizeOf: ({ result, error }) => (result?.length ?? 0) + (error?.length ?? 0),
      eager: true,
    },
  );
  const stepped = new LRUCache<string, true>({ max: maxFunctions });
  const counts = new LRUCache<string, AsleepOfProject>({ max: maxProjects, ttl: countedForMs });
  return {
    isStepped: (functionId) => stepped.has(functionId),
    begin: (run) => {
      stepped.set(run.functionId, true);
      return retryUntilDone(log, 'loading steps', () => beginSteps(stepsDb, run));
    },
    record: records.add,
    subscribe: (projectId) =>
      subscribeSteps({ db, servers }, projectId).catch((error: unknown) =>
        log.debug({ err: error, project_id: projectId }, 'events for a step are subscribed to later'),
      ),
    hasRoom: async (projectId) => {
      const known = counts.get(projectId);
      const counted =
        known ?? (await retryUntilDone(log, 'counting runs', () => asleepOf(stepsDb, projectId, limits.runs + 1)));
      if (known === undefined) counts.set(projectId, counted);
      return counted.runs < limits.runs && counted.bytes < limits.bytes[counted.plan];
    },
  };
};
