import { z } from 'zod';
import { defineJob } from './define.ts';

const folder = z.object({
  bucket: z.string(),
  name: z.string().describe('Without a slash at its end; empty: all of it.'),
});

/** Moves or copies all files of a folder. */
export const storageTransfer = defineJob({
  type: 'storage.transfer',
  pool: 'system',
  data: z.object({
    op: z.enum(['move', 'copy']),
    from: folder,
    to: folder,
    on_collision: z.enum(['fail', 'skip', 'replace']),
    /** How many there were when it was asked for. */
    files: z.int(),
    /** As whom policies are asked. */
    role: z.enum(['service', 'anon', 'authenticated']),
    claims: z.string(),
  }),
  result: z.object({ done: z.int(), skipped: z.int() }).meta({ id: 'FolderTransfer' }),
  running: { free: 1, pro: 2, enterprise: 4 },
  plural: 'Moves and copies of folders',
  maxAttempts: 5,
  retryFromMs: 2000,
  // The next run does not find the files that were moved, and recognizes its own copies.
  repeatable: true,
  timeoutMs: 3_600_000,
  capped: true,
});
