import { z } from 'zod';
import { defineJob } from './define.ts';

/** One fire of a schedule whose target is not a function: an HTTP call or SQL in the project's database. */
export const cronFire = defineJob({
  type: 'cron.fire',
  pool: 'system',
  data: z.object({
    schedule_id: z.uuid(),
    run_id: z.uuid(),
    target: z.discriminatedUnion('type', [
      z.object({ type: z.literal('http'), url: z.string() }),
      z.object({ type: z.literal('sql'), sql: z.string() }),
    ]),
    /** JSON text: the body of the HTTP call. */
    payload: z.string(),
    /** The schedule's own, where it is less than the usual one. */
    timeout_ms: z.int().positive().optional(),
  }),
  result: z.union([
    z.object({
      status: z.int(),
      duration_ms: z.number().nonnegative(),
      /** Its first 64 KB. */
      body: z.string().optional(),
    }),
    z.object({ row_count: z.int(), command: z.string() }),
  ]),
  running: { free: 5, pro: 25, enterprise: 100 },
  plural: 'Scheduled requests and statements',
  maxAttempts: 3,
  // The call or the SQL may have had its effect.
  repeatable: false,
  timeoutMs: 60_000,
  capped: false,
});
