import type { JobRef } from '#queues/define.ts';

/** Why a run is stopped before its end. */
export type StopReason = 'cancelled' | 'timeout' | 'drain';

/** The reason of an abort signal that stops a run. */
export class JobStopped extends Error {
  override readonly name = 'JobStopped';
  readonly reason: StopReason;

  constructor(reason: StopReason) {
    super(`the job was stopped: ${reason}`);
    this.reason = reason;
  }
}

export const stopReasonOf = (signal: AbortSignal): StopReason | null =>
  signal.reason instanceof JobStopped ? signal.reason.reason : null;

export interface RunningJob {
  readonly signal: AbortSignal;
  /** The first reason to stop counts. */
  readonly stop: (reason: StopReason) => void;
  /** Takes it off the list. */
  readonly remove: () => void;
}

/** The jobs that this worker runs just now. */
export interface RunningJobs {
  readonly add: (job: JobRef) => RunningJob;
  readonly stop: (jobId: string, reason: StopReason) => void;
  readonly stopAll: (reason: StopReason) => void;
  readonly count: (type: string) => number;
}

export const trackRunning = (): RunningJobs => {
  const running = new Map<string, { type: string; controller: AbortController }>();
  return {
    add: ({ id, type }) => {
      const entry = { type, controller: new AbortController() };
      running.set(id, entry);
      return {
        signal: entry.controller.signal,
        stop: (reason) => entry.controller.abort(new JobStopped(reason)),
        remove: () => {
          if (running.get(id) === entry) running.delete(id);
        },
      };
    },
    stop: (jobId, reason) => running.get(jobId)?.controller.abort(new JobStopped(reason)),
    stopAll: (reason) => {
      for (const { controller } of running.values()) controller.abort(new JobStopped(reason));
    },
    count: (type) => running.values().reduce((sum, job) => sum + (job.type === type ? 1 : 0), 0),
  };
};
