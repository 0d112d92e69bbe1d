import type { Redis } from 'ioredis';
import type { Platform } from '#domain/platform.ts';
import { createRemovalMarks } from '#domain/storage/marks.ts';
import { createResumable } from '#domain/storage/resumable.ts';
import type { StorageDeps } from '#domain/storage/storage.ts';
import { openStoragePlace } from '#lib/object-store/open-object-store.ts';
import { openUploads } from '#lib/resumable/open-uploads.ts';
import { createUploadLocks } from '#lib/resumable/upload-locks.ts';
import type { Config } from '#lib/config.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { Deps } from '#api/deps.ts';
import { createSmallFiles } from './small-files.ts';
import { createStoreCheck } from './store-check.ts';
import { createTransfers } from './transfers.ts';

interface StorageOptions {
  readonly config: Config;
  readonly platform: Platform;
  readonly data: Pick<Deps, 'data' | 'events'>;
  readonly redis: Redis;
  readonly log: Log;
}

const removeExpiredEveryMs = 600_000;

/**
 * The files of projects, as the API serves them; `expiry` deletes resumable uploads whose day is over, `check` says
 * whether the store answers.
 */
export const openStorage = async ({ config, platform, data, redis, log }: StorageOptions) => {
  const place = await openStoragePlace(config);
  const storage: StorageDeps = {
    data: data.data,
    bytes: place.store,
    sealer: platform.projects.sealer,
    config,
    markDirty: (projectId) => void data.events.markDirty(projectId),
    markRemoved: createRemovalMarks(platform.db, { log, keepHours: config.PLINTH_KEEP_REMOVED_FILES_HOURS }),
  };
  const resumable = createResumable({
    storage,
    db: platform.db,
    uploads: await openUploads(place),
    locks: createUploadLocks({ redis, prefix: config.PLINTH_REDIS_PREFIX }),
    onFailure: (error) => log.warn({ err: error }, 'a resumable upload could not be served'),
  });
  const expiry: Pick<Poller, 'stop'> = startPoller(() => resumable.removeExpired(), {
    everyMs: removeExpiredEveryMs,
    firstInMs: removeExpiredEveryMs,
    onFailure: (error) => log.warn({ err: error }, 'expired uploads could not be deleted'),
  });
  const deps: Pick<Deps, 'storage' | 'resumable' | 'smallFiles' | 'transfers'> = {
    storage,
    resumable,
    smallFiles: createSmallFiles(),
    transfers: createTransfers(config),
  };
  return { deps, expiry, check: createStoreCheck(place.store) };
};
