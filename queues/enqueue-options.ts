import { z } from 'zod';
import { retryPolicy } from './retry-policy.ts';

const dayMs = 24 * 3600 * 1000;
const maxDelayMs = 365 * dayMs;
const maxUniqueMs = 30 * dayMs;

/** So many jobs may be enqueued in one call. */
export const maxEnqueued = 1000;
/** So many jobs may stand behind one that each enqueued the next. */
export const maxDepth = 100;

const key = z
  .string()
  .min(1)
  .max(200)
  .refine((value) => value.isWellFormed() && !value.includes('\0'), {
    error: 'must be well-formed Unicode without NUL',
  });

export const enqueueFields = {
  delay_ms: z.int().min(0).max(maxDelayMs).optional().describe('It runs no sooner than that.'),
  run_at: z.iso
    .datetime({ offset: true })
    .refine((value) => Date.parse(value) < Date.now() + maxDelayMs, { error: 'must be within a year' })
    .optional()
    .describe('It runs no sooner; a time that has passed means at once. In place of delay_ms.'),
  priority: z.int().min(0).max(9).optional().describe('Among the waiting jobs of the project; 9 goes first.'),
  unique_key: key
    .optional()
    .describe(
      'The first job of the function with this key wins for unique_for_ms; others get its id. Where the function debounces, the last payload wins.',
    ),
  unique_for_ms: z.int().min(1).max(maxUniqueMs).optional().describe('A day when it is left out.'),
  concurrency_key: key.optional().describe('At most `concurrency` jobs of the project with this key run at a time.'),
  concurrency: z.int().min(1).max(1000).optional().describe('1 when it is left out.'),
  expires_in_ms: z.int().min(1).max(maxDelayMs).optional().describe('It does not begin after that any more.'),
  retry: retryPolicy.nullable().optional().describe('Left out: as the function has it. Null: it runs once.'),
};

interface Related {
  readonly delay_ms?: number | undefined;
  readonly run_at?: string | undefined;
  readonly unique_key?: string | undefined;
  readonly unique_for_ms?: number | undefined;
  readonly concurrency_key?: string | undefined;
  readonly concurrency?: number | undefined;
  readonly expires_in_ms?: number | undefined;
}

/** Fields that exclude or need each other. */
export const checkRelated = (given: Related, context: z.core.$RefinementCtx): void => {
  const refuse = (field: keyof Related, message: string): void =>
    context.addIssue({ code: 'custom', path: [field], message });
  if (given.delay_ms !== undefined && given.run_at !== undefined) refuse('run_at', 'must not stand beside delay_ms');
  if (given.unique_for_ms !== undefined && given.unique_key === undefined) refuse('unique_for_ms', 'needs unique_key');
  if (given.concurrency !== undefined && given.concurrency_key === undefined)
    refuse('concurrency', 'needs concurrency_key');
  const delayMs = given.delay_ms ?? (given.run_at === undefined ? 0 : Date.parse(given.run_at) - Date.now());
  if (given.expires_in_ms !== undefined && given.expires_in_ms <= delayMs)
    refuse('expires_in_ms', 'must be later than the time at which the job may run');
};

export type EnqueueOptions = z.output<z.ZodObject<typeof enqueueFields>>;
