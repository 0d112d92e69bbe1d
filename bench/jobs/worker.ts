import { answerParent, sharedNow } from './child.ts';
import type { Moment, WorkerPlan } from './plan.ts';
import { openWorker } from './ways.ts';
import type { Close } from './ways/side.ts';

/** The worker's process: runs jobs that do nothing, or wait a while, and notes when each began. */
const started: [string, number][] = [];
let noting = false;
const first = Promise.withResolvers<number>();
let ended = 0;
let wanted: { readonly count: number; readonly resolve: (at: number) => void } | null = null;
let close: Close | null = null;

const subscribers = {
  started: (id: string): void => {
    if (noting) started.push([id, sharedNow()]);
    first.resolve(sharedNow());
  },
  ended: (): void => {
    ended += 1;
    if (wanted !== null && ended >= wanted.count) wanted.resolve(sharedNow());
  },
};

answerParent({
  open: async (plan: WorkerPlan): Promise<void> => {
    close = await openWorker(plan, subscribers);
  },
  /** From now on it notes when which job begins. */
  note: async (): Promise<void> => {
    noting = true;
  },
  started: async (): Promise<readonly Moment[]> => started.splice(0),
  /** Resolves when the first job begins, with the time. */
  first: (): Promise<number> => first.promise,
  /** Resolves when so many have ended since the start, with the time. */
  ended: (count: number): Promise<number> => {
    if (ended >= count) return Promise.resolve(sharedNow());
    return new Promise((resolve) => (wanted = { count, resolve }));
  },
  count: async (): Promise<number> => ended,
  close: async (): Promise<void> => close?.(),
});
