import { setTimeout as pause } from 'node:timers/promises';
import type { JobOutcome } from '#queues/define.ts';
import type { JobContext, Processor, Processors } from '#workers/processor.ts';
import { type Kind, jobOf } from './jobs.ts';
import { type RunNote, type Witness, clock } from './witness.ts';

const done: JobOutcome = { status: 'succeeded', result: 'null', error: null };

const blockEventLoop = (ms: number): void => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)), 0, 0, ms);
};

const works: Readonly<Record<Kind, (ms: number, signal: AbortSignal) => Promise<void> | void>> = {
  again: (ms, signal) => pause(ms, undefined, { signal }),
  once: (ms, signal) => pause(ms, undefined, { signal }),
  poison: () => void process.kill(process.pid, 'SIGKILL'),
  block: blockEventLoop,
};

/** Jobs that do nothing but tell the witness when they start and finish. */
export const witnessedProcessors = (witness: Witness, from: Pick<RunNote, 'scene' | 'worker'>): Processors => {
  const processorOf = (kind: Kind): Processor => {
    const job = jobOf(kind);
    const noteOf = (what: RunNote['what'], { jobId, projectId }: JobContext): RunNote => ({
      ...from,
      type: job.type,
      jobId,
      projectId,
      what,
      at: clock(),
    });
    return {
      run: async (data, context) => {
        const { ms } = job.data.parse(data);
        await witness.note(noteOf('start', context));
        try {
          await works[kind](ms, context.signal);
        } finally {
          await witness.note(noteOf('finish', context));
        }
        return done;
      },
    };
  };
  const kinds: readonly Kind[] = ['again', 'once', 'poison', 'block'];
  return Object.fromEntries(kinds.map((kind) => [jobOf(kind).type, processorOf(kind)]));
};
