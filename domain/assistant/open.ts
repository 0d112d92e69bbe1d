import type { Redis } from 'ioredis';
import type { Ai } from '#domain/ai/ai.ts';
import type { SchemaCache } from '#domain/data-api/schema/cache-types.ts';
import type { Platform } from '#domain/platform.ts';
import type { Log } from '#lib/log.ts';
import { createAnswerCache } from './answer-cache.ts';
import { type Assistant, createAssistant } from './assistant.ts';

export interface AssistantOptions {
  readonly platform: Pick<Platform, 'db' | 'projects'>;
  readonly ai: Pick<Ai, 'gateway'>;
  readonly schemas: Pick<SchemaCache, 'get'>;
  readonly redis: Redis;
  readonly prefix: string;
  readonly log: Log;
}

export const openAssistant = ({ platform, ai, schemas, redis, prefix, log }: AssistantOptions): Assistant => {
  const { sealer, tenantDb } = platform.projects;
  const cache = createAnswerCache({ redis, prefix, sealer, log });
  return createAssistant({ db: platform.db, tenantDb, schemas, gateway: ai.gateway, cache });
};
