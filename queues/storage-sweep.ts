import { z } from 'zod';
import { defineJob } from './define.ts';

/** Deletes bytes of a project's files that no row names any more. */
export const storageSweep = defineJob({
  type: 'storage.sweep',
  pool: 'system',
  data: z.object({}),
  result: z.object({ removed: z.int(), orphans: z.int() }),
  running: { free: 1, pro: 1, enterprise: 1 },
  plural: 'Sweeps of files',
  maxAttempts: 3,
  repeatable: true,
  timeoutMs: 600_000,
  capped: false,
});
