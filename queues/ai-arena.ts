import { z } from 'zod';
import { defineJob } from './define.ts';

const result = z.object({
  model: z.string(),
  /** Null: the model is not known. */
  provider: z.string().nullable(),
  /** Null beside an error. */
  content: z.string().nullable(),
  latency_ms: z.int().nonnegative(),
  tokens: z.object({ prompt: z.int().nonnegative(), completion: z.int().nonnegative() }).nullable(),
  error: z
    .object({
      code: z.string(),
      message: z.string(),
      /** Seconds, where it is said when to come back. */
      retry_after: z.int().nonnegative().optional(),
    })
    .nullable(),
});

/** One answer of the arena, in the order in which the models were named. */
export type ArenaResult = z.output<typeof result>;

/** Asks up to four models the same, side by side. */
export const aiArena = defineJob({
  type: 'ai.arena',
  pool: 'ai',
  /** A chat request with several models in place of one; checked by the API. */
  data: z.object({ models: z.array(z.string()).min(2).max(4), chat: z.record(z.string(), z.unknown()) }),
  result: z.object({ results: z.array(result) }),
  running: { free: 4, pro: 20, enterprise: 100 },
  plural: 'Arenas',
  // For faults of ours before anybody was asked; the gateway asks providers again by itself.
  maxAttempts: 3,
  // A provider that was asked is paid.
  repeatable: false,
  timeoutMs: 660_000,
  capped: true,
});
