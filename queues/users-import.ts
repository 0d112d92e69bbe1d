import { z } from 'zod';
import { defineJob } from './define.ts';

const fault = z.object({ index: z.int(), code: z.string() });

/** Writes users of another system into a project's database. They wait in parts beside the job. */
export const usersImport = defineJob({
  type: 'users.import',
  pool: 'system',
  data: z.object({
    /** Users of the request. */
    total: z.int(),
    /** The users that cannot be imported, as far as they are listed, and their number. */
    faults: z.array(fault),
    failed: z.int(),
  }),
  result: z.object({ imported: z.int(), skipped: z.int(), failed: z.int(), errors: z.array(fault) }),
  running: { free: 1, pro: 1, enterprise: 2 },
  plural: 'Imports of users',
  maxAttempts: 5,
  retryFromMs: 2000,
  // Each transaction notes which users it imported, and a second run leaves these out.
  repeatable: true,
  timeoutMs: 1_800_000,
  capped: true,
});
