import type { Redis } from 'ioredis';
import type { Ai } from '#domain/ai/ai.ts';
import { createDataDb } from '#domain/data-api/postgres-db.ts';
import { createSchemaCache } from '#domain/data-api/schema/cache.ts';
import { createDirtyMarks, createWaitingMarks } from '#domain/events/marks.ts';
import type { Platform } from '#domain/platform.ts';
import { openFlags } from '#domain/flags/open.ts';
import { createKeyHolders } from '#domain/projects/api-keys.ts';
import type { FunctionVersions } from '#domain/functions/functions.ts';
import type { Jobs } from '#domain/jobs/jobs.ts';
import type { Config } from '#lib/config.ts';
import type { Egress } from '#lib/egress.ts';
import type { Log } from '#lib/log.ts';
import type { Notice, Signals, Subscriber } from '#queues/signals.ts';
import type { Deps } from './deps.ts';
import { openEndUserDeps } from './end-user-deps.ts';

export interface DataDepsOptions {
  readonly config: Config;
  readonly log: Log;
  readonly redis: Redis;
  readonly platform: Platform;
  readonly ai: Pick<Ai, 'keys'>;
  readonly subscriber: Subscriber;
  readonly signals: Signals;
  readonly egress: Pick<Egress, 'fetch'>;
  readonly jobs: Pick<Jobs, 'run'>;
  readonly functionVersions: FunctionVersions;
}

/** The dependencies of the key-authenticated surfaces, kept up to date with the other processes. */
export const openDataDeps = (
  options: DataDepsOptions,
): Pick<
  Deps,
  'keys' | 'tokens' | 'endUsers' | 'oauth' | 'issuers' | 'data' | 'schemas' | 'events' | 'projectChanged' | 'flags'
> => {
  const { config, log, redis, platform, ai, subscriber, signals, egress, jobs, functionVersions } = options;
  const { tenantDb } = platform.projects;
  const marks = { redis, prefix: config.PLINTH_REDIS_PREFIX, log };
  const keys = createKeyHolders({ db: platform.db, isSubscribed: subscriber.isSubscribed });
  const schemas = createSchemaCache({
    tenantDb,
    announce: (projectId) => void signals.notify({ about: 'schema', projectId }),
  });
  const events = { ...createDirtyMarks(marks), ...createWaitingMarks(marks) };
  const endUsers = openEndUserDeps({
    config,
    log,
    platform,
    subscriber,
    egress,
    jobs,
    functionVersions,
    markDirty: events.markDirty,
  });
  const flags = openFlags({
    config,
    log,
    db: platform.db,
    sealer: platform.sealer,
    isSubscribed: subscriber.isSubscribed,
    signals,
  });
  const forget = (projectId: string): void => {
    keys.forget(projectId);
    endUsers.forget(projectId);
    ai.keys.forget(projectId);
  };
  const applyNotice = ({ about, projectId }: Notice): void => {
    if (about === 'schema') return schemas.expire(projectId);
    if (about === 'flags') return flags.noteChange(projectId);
    forget(projectId);
  };
  // While Redis is away nothing is kept, and the subscription waits for it.
  subscriber.onNotice(applyNotice).catch(() => undefined);
  return {
    keys,
    ...endUsers.deps,
    data: createDataDb({ tenantDb, schemaVersion: schemas.version }),
    schemas,
    events,
    flags,
    projectChanged: async (projectId) => {
      forget(projectId);
      await signals.notify({ about: 'project', projectId });
    },
  };
};
