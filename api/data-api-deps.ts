import type { Redis } from 'ioredis';
import type { Ai } from '#domain/ai/ai.ts';
import { requireSender } from '#domain/email/email.ts';
import { ownAddress } from '#lib/own-address.ts';
import { requestMail } from '#domain/end-users/mails.ts';
import { restUrl } from './http/rest-url.ts';
import { createDataDb } from '#domain/data-api/postgres-db.ts';
import { createSchemaCache } from '#domain/data-api/schema/cache.ts';
import { createDirtyMarks, createWaitingMarks } from '#domain/events/marks.ts';
import { createAuthDb } from '#domain/end-users/auth-db.ts';
import type { EndUserDeps } from '#domain/end-users/end-users.ts';
import { isTokenLive } from '#domain/end-users/sessions.ts';
import { createAuthSettings } from '#domain/end-users/settings.ts';
import { createTokenSigner, createTokenVerifier } from '#domain/end-users/tokens.ts';
import type { Platform } from '#domain/platform.ts';
import { createKeyHolders } from '#domain/projects/api-keys.ts';
import type { Config } from '#lib/config.ts';
import type { Log } from '#lib/log.ts';
import type { Notice, Signals, Subscriber } from '#queues/signals.ts';
import type { Deps } from './deps.ts';

export interface DataDepsOptions {
  readonly config: Config;
  readonly log: Log;
  readonly redis: Redis;
  readonly platform: Platform;
  readonly ai: Pick<Ai, 'keys'>;
  readonly subscriber: Subscriber;
  readonly signals: Signals;
}

/** The dependencies of the key-authenticated surfaces, kept up to date with the other processes. */
export const openDataDeps = ({
  config,
  log,
  redis,
  platform,
  ai,
  subscriber,
  signals,
}: DataDepsOptions): Pick<Deps, 'keys' | 'tokens' | 'endUsers' | 'data' | 'schemas' | 'events' | 'projectChanged'> => {
  const { tenantDb, sealer } = platform.projects;
  const marks = { redis, prefix: config.PLINTH_REDIS_PREFIX, log };
  const keys = createKeyHolders({ db: platform.db, isSubscribed: subscriber.isSubscribed });
  const schemas = createSchemaCache({
    tenantDb,
    announce: (projectId) => void signals.notify({ about: 'schema', projectId }),
  });
  const events = { ...createDirtyMarks(marks), ...createWaitingMarks(marks) };
  const settings = createAuthSettings(platform.db, subscriber.isSubscribed);
  const authDb = createAuthDb(tenantDb);
  const endUsers: EndUserDeps = {
    authDb,
    settings,
    signer: createTokenSigner(platform.db, sealer),
    sealer,
    isLimited: config.PLINTH_RATE_LIMITS === 'on',
    restUrlOf: (ref) => restUrl(ref, { deps: { config }, baseUrl: ownAddress(config) }),
    mails: {
      request: (project, order) => requestMail({ db: platform.db, sealer }, project, order),
      require: (project) =>
        requireSender({ db: platform.db, projects: { sealer }, local: config.PLINTH_LOCAL === 'on' }, project),
    },
    markDirty: (projectId) => void events.markDirty(projectId),
  };
  const forget = (projectId: string): void => {
    keys.forget(projectId);
    settings.forget(projectId);
    ai.keys.forget(projectId);
  };
  const applyNotice = ({ about, projectId }: Notice): void => {
    if (about === 'schema') return schemas.expire(projectId);
    forget(projectId);
  };
  // While Redis is away nothing is kept, and the subscription waits for it.
  subscriber.onNotice(applyNotice).catch(() => undefined);
  return {
    keys,
    tokens: createTokenVerifier(platform.db, (projectId, owner) => isTokenLive(authDb, projectId, owner)),
    endUsers,
    data: createDataDb({ tenantDb, schemaVersion: schemas.version }),
    schemas,
    events,
    projectChanged: async (projectId) => {
      forget(projectId);
      await signals.notify({ about: 'project', projectId });
    },
  };
};
