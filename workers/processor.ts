import type { Sleep } from '#domain/jobs/steps.ts';
import type { LogLevel, LogLine } from '#domain/jobs/logs.ts';
import type { AnswerWriter } from '#queues/answer-streams.ts';
import type { JobError, JobOutcome } from '#queues/define.ts';
import type { SandboxFacts } from '#queues/function-invoke.ts';

/** The facts about the job that a processor has beside its data. */
export interface JobContext {
  readonly jobId: string;
  readonly projectId: string;
  readonly requestId: string;
  /** 1 for the first run. */
  readonly attempt: number;
  /** From when the job was queued until its row said that it runs. Left out: not at all. */
  readonly waitedMs?: number;
  /** Which state of the project's variables the run of a function must see. Left out: any. */
  readonly envVersion?: number;
  /** How many jobs stand behind this one that each enqueued the next; left out: none. */
  readonly depth?: number;
  /** Lets the run record steps. Left out: it has none. */
  readonly continuation?: Continuation;
  /** Whether a caller waits for the result of the job; left out: false. */
  readonly isAwaited?: boolean;
  /** Aborted when the job must stop; its reason is a `JobStopped`. */
  readonly signal: AbortSignal;
  /**
   * The way of an answer to the caller, while the run goes on; null, or left out, when no caller waits. Called when
   * there is something to send.
   */
  readonly openAnswer?: () => Promise<AnswerWriter | null>;
  /** A line for readers of the job; its time is the given one, else now. */
  readonly log: (level: LogLevel, message: string, ts?: string, fields?: LogLine['fields']) => void;
  /** @param percent 0 to 100 */
  readonly progress: (percent: number) => void;
}

/** The facts that a run with steps has of itself. */
interface Continuation {
  /** Names this run among those of the job. */
  readonly runId: string;
  /** From now on the job is queued again when its worker stops in the middle of the run. */
  readonly isPossible: () => void;
}

/**
 * Thrown by a run of which only somebody else's answer is missing. The job gives up its places in the queue and at the
 * worker, and runs again once `answered` is settled, or after `maxMs` in any case. Only a run whose `answered`
 * rejects counts as an attempt.
 */
export class JobParked extends Error {
  override readonly name = 'JobParked';
  readonly answered: Promise<unknown>;
  readonly maxMs: number;

  constructor(answered: Promise<unknown>, maxMs: number) {
    super('the job waits for an answer');
    this.answered = answered;
    this.maxMs = maxMs;
  }
}

/**
 * Thrown by a run whose steps all have a result or wait. The job gives up its places until the first of them is over;
 * then its next run continues.
 */
export class JobAsleep extends Error {
  override readonly name = 'JobAsleep';
  readonly sleep: Omit<Sleep, 'id' | 'runId'>;

  constructor(sleep: Omit<Sleep, 'id' | 'runId'>) {
    super('the job sleeps');
    this.sleep = sleep;
  }
}

export type Run = (data: unknown, context: JobContext) => Promise<JobOutcome>;

/** The outcome of a job that failed for good: it is not tried again. */
export const failed = (code: string, message: string): JobOutcome => ({
  status: 'failed',
  result: null,
  error: { code, message },
});

/** Runs one kind of job. */
export interface Processor {
  /** The worker's self-description while it serves these jobs. */
  readonly sandbox?: SandboxFacts;
  /**
   * Faults of user code are outcomes. What it throws is a fault of ours or of a dependency, before user code began: the
   * job is tried again.
   */
  readonly run: Run;
  /**
   * Called when a job arrives, before it is known whether it may begin: what it reads of the project is there sooner.
   * It must change nothing and not throw. What it answers runs the job in place of `run`.
   */
  readonly ahead?: (projectId: string) => Run;
  /**
   * The last word on a job that ends without an outcome of its own: it was tried often enough, or its worker died.
   * Answers the result that its row keeps, as JSON text. Left out: none.
   */
  readonly giveUp?: (error: JobError, job: Pick<JobContext, 'jobId' | 'projectId'>) => Promise<string | null>;
}

export type Processors = Readonly<Record<string, Processor>>;
