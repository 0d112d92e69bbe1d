import { z } from 'zod';
import { defineJob } from './define.ts';

/** Makes one picture of an object and keeps it as an object that can be thrown away. */
export const storageRender = defineJob({
  type: 'storage.render',
  pool: 'storage',
  data: z.object({ version: z.string(), options: z.record(z.string(), z.union([z.string(), z.number()])) }),
  /** Where its bytes are. */
  result: z.object({ key: z.string(), size: z.int() }),
  running: { free: 2, pro: 8, enterprise: 32 },
  plural: 'Pictures that are made',
  maxAttempts: 2,
  repeatable: true,
  timeoutMs: 60_000,
  capped: true,
});
