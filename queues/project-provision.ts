import { z } from 'zod';
import { defineJob } from './define.ts';

/** Makes a project's database and roles. Each step looks before it acts, so that a run that died half-way is repeated. */
export const projectProvision = defineJob({
  type: 'project.provision',
  queue: 'system',
  data: z.object({}),
  result: z.object({ db_name: z.string() }),
  maxAttempts: 3,
  repeatable: true,
});
