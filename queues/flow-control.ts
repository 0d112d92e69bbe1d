import { z } from 'zod';

const hourMs = 3600 * 1000;

/** How many jobs of a function may start: a bucket of `burst` tokens that fills at `per_second`. */
export const rateLimit = z.strictObject({
  per_second: z.number().min(0.001).max(10_000).describe('Starts a second, on average; 0.1 is one in ten seconds.'),
  burst: z.int().min(1).max(10_000).default(1).describe('So many may start at once after a quiet time.'),
});
export type RateLimit = z.output<typeof rateLimit>;

export const debounceMs = z
  .int()
  .min(1)
  .max(24 * hourMs);

/** One run gets the payloads of several jobs. */
export const batching = z.strictObject({
  max_size: z.int().min(2).max(1000).describe('A run gets at most so many payloads.'),
  max_wait_ms: z.int().min(1).max(hourMs).describe('A batch that is not full runs after so long.'),
});
export type Batching = z.output<typeof batching>;

/** When and how many together the jobs of a function run. */
export interface FlowControl {
  readonly rate: RateLimit | null;
  readonly debounce_ms: number | null;
  readonly batch: Batching | null;
}

/** Whether the function says when a job may start. */
export const isHolding = ({ rate, batch }: Pick<FlowControl, 'rate' | 'batch'>): boolean =>
  rate !== null || batch !== null;

/** Whether a job waits for a time or for others before it may start. */
export const isControlled = ({ rate, debounce_ms: debounce, batch }: FlowControl): boolean =>
  rate !== null || debounce !== null || batch !== null;
