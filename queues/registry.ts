import { aiArena } from './ai-arena.ts';
import { cronFire } from './cron-fire.ts';
import type { JobDefinition } from './define.ts';
import { emailSend } from './email-send.ts';
import { functionInvoke } from './function-invoke.ts';
import { functionSnapshot } from './function-snapshot.ts';
import { projectProvision } from './project-provision.ts';
import { usersImport } from './users-import.ts';
import { storageRender } from './storage-render.ts';
import { storageSweep } from './storage-sweep.ts';
import { storageTransfer } from './storage-transfer.ts';
import { vectorsUpsert } from './vectors-upsert.ts';
import { webhookDeliver } from './webhook-deliver.ts';

/** Every kind of job. A worker refuses to start without a processor for each kind of the queues that it serves. */
export const jobs = [
  functionInvoke,
  projectProvision,
  cronFire,
  webhookDeliver,
  emailSend,
  aiArena,
  vectorsUpsert,
  usersImport,
  storageSweep,
  storageRender,
  storageTransfer,
  functionSnapshot,
] as const satisfies readonly JobDefinition[];
