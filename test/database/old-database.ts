import { roleName } from '#domain/database-servers/names.ts';
import { deletedProjectJobs } from '#domain/jobs/abandon.ts';
import { createProjects } from '#domain/projects/projects.ts';
import { migrateProjectDatabase, projectMigrations } from '#domain/database-servers/template.ts';
import { upgradeDatabases } from '#domain/database-servers/upgrade.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { tenantRoles } from '#lib/tenant-db.ts';
import { asAdmin } from '#test/support/databases.ts';
import { type TestPlatform, memoryLog } from '#test/support/platform.ts';
import type { ProjectDatabase } from './guard-scene.ts';
import { openServers } from './guard-servers.ts';

/** Makes a project's database anew, as an earlier version made it; the first one did not tell it its roles. */
export const makeOld = async ({ id, name, ref }: ProjectDatabase, version = 1): Promise<void> => {
  const migrations = await projectMigrations();
  const named = (kind: string): string => `"${ref}_${kind}"`;
  const all = ['owner', 'api', 'service', 'reader'].map(named).join(', ');
  await asAdmin('postgres', async (admin) => {
    await admin.query(`drop database "${name}" with (force)`);
    await admin.query(`create database "${name}" template template0`);
    await admin.query(`
      revoke connect, temporary on database "${name}" from public;
      grant connect on database "${name}" to ${all};
      grant create, temporary on database "${name}" to ${named('owner')};
      comment on database "${name}" is 'plinth project ${id}'`);
  });
  await asAdmin(name, async (db) => {
    // Databases of the platform have it from the start.
    await db.query('set search_path = pg_catalog, pg_temp');
    await migrateProjectDatabase(
      db,
      migrations.filter((migration) => migration.version <= version),
    );
    await db.query(`
      grant usage, create on schema public to ${named('owner')};
      grant usage on schema public to anon, authenticated, ${named('service')}, ${named('reader')};
      alter default privileges for role ${named('owner')} grant select on tables to ${named('reader')};
      alter default privileges for role ${named('owner')} grant all on tables to ${named('service')}`);
    if (version > 1)
      await db.query('select plinth.set_roles($1, $2)', [tenantRoles, tenantRoles.map((kind) => roleName(ref, kind))]);
  });
};

/** Upgrades what is behind, as a worker does. */
export const upgradeAll = async (platform: TestPlatform): Promise<{ done: number; logged: string }> => {
  const { db, config } = platform;
  const servers = await openServers(platform);
  const { log, text } = memoryLog();
  const keyRing = openKeyRing(config.PLINTH_SECRET_KEYS);
  const { sealer } = createProjects({ db, servers, keyRing, jobs: deletedProjectJobs(db), tenantConnections: 1, log });
  const done = await upgradeDatabases({ db, servers, sealer, log });
  await servers.close();
  return { done, logged: text() };
};
