// Made from queues/registry.ts by `npm run processors`.
import type { OpenProcessor } from './deps.ts';
import { aiArenaProcessor } from './ai-arena.ts';
import { cronFireProcessor } from './cron-fire.ts';
import { emailSendProcessor } from './email-send.ts';
import { functionInvokeProcessor } from './function-invoke.ts';
import { functionSnapshotProcessor } from './function-snapshot.ts';
import { projectProvisionProcessor } from './project-provision.ts';
import { storageRenderProcessor } from './storage-render.ts';
import { storageSweepProcessor } from './storage-sweep.ts';
import { storageTransferProcessor } from './storage-transfer.ts';
import { usersImportProcessor } from './users-import.ts';
import { vectorsUpsertProcessor } from './vectors-upsert.ts';
import { webhookDeliverProcessor } from './webhook-deliver.ts';

/** The processor of each job type. */
export const openProcessors: Readonly<Record<string, OpenProcessor>> = {
  'ai.arena': aiArenaProcessor,
  'cron.fire': cronFireProcessor,
  'email.send': emailSendProcessor,
  'function.invoke': functionInvokeProcessor,
  'function.snapshot': functionSnapshotProcessor,
  'project.provision': projectProvisionProcessor,
  'storage.render': storageRenderProcessor,
  'storage.sweep': storageSweepProcessor,
  'storage.transfer': storageTransferProcessor,
  'users.import': usersImportProcessor,
  'vectors.upsert': vectorsUpsertProcessor,
  'webhook.deliver': webhookDeliverProcessor,
};
