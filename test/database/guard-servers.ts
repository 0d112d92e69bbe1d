import { type DatabaseServers, createDatabaseServers } from '#domain/database-servers/database-servers.ts';
import { openPlatformSealer } from '#lib/platform-sealer.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { type TestPlatform, memoryLog } from '#test/support/platform.ts';

/** The servers of a platform, to be closed by the caller. */
export const openServers = async ({ db, config }: TestPlatform): Promise<DatabaseServers> => {
  const sealer = await openPlatformSealer(db, openKeyRing(config.PLINTH_SECRET_KEYS));
  return createDatabaseServers({ db, sealer, controlUrl: config.DATABASE_URL, log: memoryLog().log });
};
