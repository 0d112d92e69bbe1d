import { setTimeout as pause } from 'node:timers/promises';
import { type BackendFactory, type RedisQueueBackend, createRedisBackend } from 'bullmq';
import type { ScriptArgument, Taken } from './scripts.ts';

/** The end of a run, on its way to Redis. */
export interface PendingEnd {
  /** Publishes the end, finishes BullMQ's job and takes the next one. */
  readonly send: (finish: readonly ScriptArgument[]) => Promise<Taken>;
  /** Called once, after the first attempt; null: the end is published. */
  readonly onSent: (error: Error | null) => void;
}

export interface WorkerBackendOptions {
  /** Takes a job and checks its lease. */
  readonly take: (args: readonly ScriptArgument[]) => Promise<Taken>;
  /** The end of the run of this BullMQ job, when one is to be published. */
  readonly endOf: (bullId: string) => PendingEnd | undefined;
  readonly onTaken: (bullId: string, isHeld: boolean) => void;
  /** From then on an end that Redis does not take is left to the reconciler. */
  readonly isClosing: () => boolean;
}

const keysOfFinish = 14;
/** The place, among the keys and arguments of BullMQ's script that finishes a job, of whether it takes the next one. */
const fetchNextAt = keysOfFinish + 5;
/** BullMQ's answer when there is no job. */
const noJob = [0, 0, 0, 0];
const retryMs = 1000;
const maxTries = 60;

const bullIdIn = (job: unknown): string | null => (Array.isArray(job) && typeof job[1] === 'string' ? job[1] : null);

/** Sends it until Redis takes it, or the worker stops: whoever waits for the end may still be there. */
const sendLater = async (
  { send }: PendingEnd,
  args: readonly ScriptArgument[],
  isClosing: () => boolean,
): Promise<void> => {
  // No slot of this worker waits for another job.
  const finish = args.with(fetchNextAt, 0);
  for (let tries = 0; tries < maxTries && !isClosing(); tries += 1) {
    await pause(retryMs, undefined, { ref: false });
    const isTaken = await send(finish).then(
      () => true,
      () => false,
    );
    if (isTaken) return;
  }
};

/**
 * Null: Redis did not take it. It is sent again meanwhile; a Redis that is full or away must not keep the slot. What
 * BullMQ still has of the job is delivered again once its lock has ended, and dropped.
 */
const sendOnce = async (
  end: PendingEnd,
  finish: readonly ScriptArgument[],
  isClosing: () => boolean,
): Promise<Taken | null> => {
  try {
    const taken = await end.send(finish);
    end.onSent(null);
    return taken;
  } catch (error) {
    end.onSent(error instanceof Error ? error : new Error(String(error)));
    void sendLater(end, finish, isClosing);
    return null;
  }
};

/**
 * BullMQ's access to Redis with two commands of ours in place of its own: taking a job checks its lease as well, and
 * ending one publishes the outcome, frees the lease and takes the next job in the same step. A worker that has just
 * been told that nothing waits blocks without a further search, which would find nothing.
 */
export const workerBackend =
  ({ take, endOf, onTaken, isClosing }: WorkerBackendOptions): BackendFactory<RedisQueueBackend> =>
  (name, opts, options) => {
    const backend = createRedisBackend(name, opts, options);
    const execCommand = backend.execCommand.bind(backend);
    const waitForJob = backend.waitForJob.bind(backend);
    let isEmpty = false;

    const jobOf = ({ job, isHeld, isLast }: Taken): unknown => {
      const bullId = bullIdIn(job);
      if (bullId !== null) onTaken(bullId, isHeld);
      isEmpty = bullId !== null && isLast;
      return job;
    };
    const takeNext = async (args: readonly ScriptArgument[]): Promise<unknown> => {
      if (!isEmpty) return jobOf(await take(args));
      isEmpty = false;
      return noJob;
    };
    const finish = async (end: PendingEnd, args: readonly ScriptArgument[]): Promise<unknown> => {
      const taken = await sendOnce(end, args, isClosing);
      if (taken === null) return noJob;
      // A negative answer: the job was given to another worker meanwhile. 0: it is finished, and there is no next one.
      if (typeof taken.job === 'number' && (taken.job < 0 || taken.isLast)) return noJob;
      return jobOf(taken);
    };

    backend.waitForJob = async (timeout) => {
      const marker = await waitForJob(timeout);
      isEmpty = false;
      return marker;
    };
    backend.execCommand = (client, command, args: ScriptArgument[]) => {
      if (command === 'moveToActive') return takeNext(args);
      const end = command === 'moveToFinished' ? endOf(String(args[keysOfFinish])) : undefined;
      return end === undefined ? execCommand(client, command, args) : finish(end, args);
    };
    return backend;
  };
