import type { Keys } from '#domain/jobs/concurrency.ts';
import type { StartedJob } from '#domain/jobs/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { Delivery } from '#queues/consumer.ts';
import type { JobDefinition, JobRef } from '#queues/define.ts';
import type { Lease } from '#queues/gate/lease.ts';
import type { AnswerWriters } from '#queues/answer-streams.ts';
import type { Outcomes } from '#queues/replies.ts';
import type { JobStatusEvent, Signals } from '#queues/signals.ts';
import type { Processor, Processors, Run } from './processor.ts';
import type { Recorder } from './recorder.ts';
import type { RunningJobs } from './running.ts';

export interface RunJobDeps {
  readonly db: Queryable;
  readonly log: Log;
  readonly workerId: string;
  readonly outcomes: Outcomes;
  readonly answers: AnswerWriters;
  readonly signals: Signals;
  readonly recorder: Recorder;
  /** The jobs that this worker serves. */
  readonly jobs: readonly JobDefinition[];
  readonly processors: Processors;
  readonly running: RunningJobs;
  /** Whether a lease still is its job's own. */
  readonly isHeld: (shard: string, lease: Lease) => Promise<boolean>;
  /** Frees the place of a job at the gate. */
  readonly finish: (shard: string, lease: Lease) => Promise<void>;
  /** Brings a job that was handed back to the gate again. */
  readonly readmit: (shard: string, job: Pick<JobRef, 'id' | 'projectId' | 'priority'>) => Promise<void>;
  /** Gives free places of concurrency keys to the jobs that are next, and brings these to the gate. */
  readonly admitKeyed: (shard: string, keys: Keys) => Promise<void>;
  /** Ends were recorded that left events for webhooks. */
  readonly onEvents?: (() => void) | undefined;
  /** A retry was written that is due in so many ms. */
  readonly retryIn: (type: string, ms: number) => void;
}

/** The news that a job runs, which may travel with its end. */
export interface RunningStatus {
  /** Hands over the events that are not announced yet: from then on the caller announces them. */
  readonly take: () => readonly JobStatusEvent[];
  /** Announces it now, unless that was done. */
  readonly announce: () => void;
}

/** One started job. */
export interface Work {
  readonly deps: RunJobDeps;
  readonly job: JobDefinition;
  readonly processor: Processor;
  /** The processor's, or what it began ahead. */
  readonly run: Run;
  readonly delivery: Delivery;
  readonly runId: string;
  readonly started: StartedJob;
  /** Whether the run can be continued by another: its steps are recorded. */
  readonly continuation: { isPossible: boolean };
  readonly status: RunningStatus;
}
