import { z } from 'zod';
import { defineJob } from './define.ts';

/**
 * Evaluates the large module of a new version once, and reports whether the runs of the function can begin with a copy
 * of that state (decision 070).
 */
export const functionSnapshot = defineJob({
  type: 'function.snapshot',
  pool: 'functions',
  data: z.object({ function_id: z.uuid(), version: z.int() }),
  /** `fault`: why each run evaluates the module anew; null: none does. */
  result: z.object({ fault: z.string().nullable() }),
  running: { free: 1, pro: 2, enterprise: 4 },
  plural: 'Deploys whose modules are tried',
  maxAttempts: 2,
  repeatable: true,
  timeoutMs: 30_000,
  capped: true,
});
