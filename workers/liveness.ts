import { url as inspectorUrl } from 'node:inspector';
import { Worker } from 'node:worker_threads';

export interface LivenessOptions {
  /** A process whose event loop stalls for so long is killed. */
  readonly limitMs?: number;
  readonly beatMs?: number;
}

/** The data that the watching thread is started with. */
export interface LivenessWatch {
  /** One counter that the main thread moves. */
  readonly beats: SharedArrayBuffer;
  readonly limitMs: number;
  readonly beatMs: number;
}

/**
 * Ends this process when its event loop stalls: a stuck worker holds jobs that it will never finish, and can neither
 * report nor be asked. Killed, it loses its jobs to others as any dead worker does, and its supervisor starts it again.
 * The same holds for a process that was stopped for longer (SIGSTOP, a frozen container) when it continues. The limit
 * lies below the 8 s without heartbeats after which others take its jobs for a dead worker's, so that no job runs twice
 * at a time. A thread watches, because nothing on the main thread can. Not under a debugger, which stops the loop as
 * well.
 * @returns how to stop looking
 */
export const startLivenessWatch = ({ limitMs = 4000, beatMs = 500 }: LivenessOptions = {}): (() => Promise<void>) => {
  if (inspectorUrl() !== undefined) return () => Promise.resolve();
  const beats = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const counter = new Int32Array(beats);
  const timer = setInterval(() => {
    Atomics.add(counter, 0, 1);
    Atomics.notify(counter, 0);
  }, beatMs);
  timer.unref();
  const thread = new Worker(new URL('liveness-thread.ts', import.meta.url), {
    name: 'liveness',
    workerData: { beats, limitMs, beatMs } satisfies LivenessWatch,
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 },
  });
  thread.unref();
  // Without the thread the process is as alive as before; the supervisor's own probe is left.
  thread.on('error', () => undefined);
  return async () => {
    clearInterval(timer);
    await thread.terminate();
  };
};
