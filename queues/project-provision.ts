import { z } from 'zod';
import { defineJob } from './define.ts';

/**
 * Creates a project's database and roles. Each step checks before it acts, so that a run that died half-way is
 * repeated.
 */
export const projectProvision = defineJob({
  type: 'project.provision',
  pool: 'system',
  data: z.object({}),
  result: z.object({ db_name: z.string() }),
  running: { free: 1, pro: 1, enterprise: 1 },
  plural: 'Projects that are set up',
  maxAttempts: 3,
  repeatable: true,
  timeoutMs: 120_000,
  capped: true,
});
