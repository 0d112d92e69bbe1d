import type { RunTimings } from '#queues/function-invoke.ts';
import { BusyTime } from '../runtimes/busy-time.ts';
import type { RunOutcome, RunServices } from '../runtimes/runtime.ts';

const hundredths = (ms: number): number => Math.round(Math.max(0, ms) * 100) / 100;

/** Measures where the time of one run goes, from when its processor begins. */
export class RunTimes {
  readonly #waitedMs: number;
  readonly #beganAt = performance.now();
  readonly #database = new BusyTime();
  readonly #fetch = new BusyTime();

  constructor(waitedMs: number) {
    this.#waitedMs = waitedMs;
  }

  /** The same services, whose calls are timed. */
  watch(services: RunServices): RunServices {
    return {
      ...services,
      call: async (op, args) => {
        const leave = this.#timeOf(op)?.enter();
        try {
          return await services.call(op, args);
        } finally {
          leave?.();
        }
      },
    };
  }

  /** To be asked for when the run has just ended. */
  of({ durationMs, cpuMs, networkMs = 0 }: RunOutcome): RunTimings {
    return {
      queue: hundredths(this.#waitedMs),
      start: hundredths(performance.now() - this.#beganAt - durationMs),
      db: hundredths(this.#database.ms()),
      fetch: hundredths(this.#fetch.ms() + networkMs),
      cpu: hundredths(cpuMs),
    };
  }

  #timeOf(op: string): BusyTime | null {
    if (op.startsWith('db.') || op.startsWith('asCaller.')) return this.#database;
    return op.startsWith('fetch') ? this.#fetch : null;
  }
}
