import type { Config } from '#lib/config.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { openPlatformSealer } from '#lib/platform-sealer.ts';
import { type Sealer, openKeyRing } from '#lib/secrets.ts';
import { type DatabaseServers, createDatabaseServers } from '#domain/database-servers/database-servers.ts';
import { deletedProjectJobs } from './jobs/abandon.ts';
import { type Projects, createProjects } from '#domain/projects/projects.ts';

/** The services that both the API and workers use. */
export interface Platform {
  readonly db: ControlDb;
  readonly sealer: Sealer;
  readonly projects: Projects;
  /** The servers of projects' databases; closed with `projects`. */
  readonly servers: DatabaseServers;
  readonly close: () => Promise<void>;
}

/** @throws {ConfigError} when the key ring does not fit the database */
export const openPlatform = async (config: Config, log: Log): Promise<Platform> => {
  const db = openControlDb({ url: config.DATABASE_URL, connections: config.PLINTH_DATABASE_POOL, log });
  const keyRing = openKeyRing(config.PLINTH_SECRET_KEYS);
  const sealer = await openPlatformSealer(db, keyRing);
  const servers = createDatabaseServers({ db, sealer, controlUrl: config.DATABASE_URL, log });
  const projects = createProjects({
    db,
    servers,
    keyRing,
    jobs: deletedProjectJobs(db),
    tenantConnections: config.PLINTH_TENANT_CONNECTIONS,
    log,
  });
  return {
    db,
    sealer,
    projects,
    servers,
    close: async () => {
      await projects.close();
      await db.close();
    },
  };
};
