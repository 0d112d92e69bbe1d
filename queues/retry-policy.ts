import { z } from 'zod';

/** The ends of a run after which another attempt can be asked for. */
const retriedEnds = ['error', 'timeout', 'crashed'] as const;

const maxAttempts = 20;
const maxPauseMs = 24 * 3600 * 1000;

const pauseMs = z.int().min(0).max(maxPauseMs);

/** How often, and after which pauses, a run that failed is tried again. Without a policy a function runs once. */
export const retryPolicy = z
  .strictObject({
    max_attempts: z.int().min(1).max(maxAttempts).describe('The first run is one of them.'),
    backoff: z.enum(['exponential', 'fixed']).default('exponential'),
    base_ms: pauseMs.default(1000).describe('The pause before the second attempt.'),
    max_ms: pauseMs.default(3600 * 1000).describe('The longest pause.'),
    on: z
      .array(z.enum(retriedEnds))
      .min(1)
      .max(retriedEnds.length)
      .default([...retriedEnds]),
  })
  .refine(({ base_ms: base, max_ms: max }) => base <= max, {
    path: ['max_ms'],
    error: 'must not be less than base_ms',
  })
  .meta({ id: 'RetryPolicy' });

export type RetryPolicy = z.output<typeof retryPolicy>;

/** Whether a run that ended so is followed by another. */
export const isRetried = (policy: RetryPolicy, attempt: number, code: string): boolean =>
  attempt < policy.max_attempts && (policy.on as readonly string[]).includes(code);

/**
 * The pause after that attempt. An exponential one doubles each time and is shortened by up to half at random, so that
 * jobs which failed together do not come back together.
 */
export const pauseAfter = (
  { backoff, base_ms: base, max_ms: max }: RetryPolicy,
  attempt: number,
  random = Math.random,
): number => {
  if (backoff === 'fixed') return base;
  const whole = Math.min(max, base * 2 ** (attempt - 1));
  return Math.round(whole * (1 - random() / 2));
};
