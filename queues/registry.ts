import { cronFire } from './cron-fire.ts';
import type { JobDefinition } from './define.ts';
import { functionInvoke } from './function-invoke.ts';
import { projectProvision } from './project-provision.ts';

/** Every kind of job. A worker refuses to start without a processor for each kind of the queues that it serves. */
export const jobs = [functionInvoke, projectProvision, cronFire] as const satisfies readonly JobDefinition[];
