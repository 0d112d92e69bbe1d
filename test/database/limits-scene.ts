import type { Client as Pg } from 'pg';
import { type DatabaseServers, createDatabaseServers } from '#domain/database-servers/database-servers.ts';
import { openPlatformSealer } from '#lib/platform-sealer.ts';
import { openKeyRing } from '#lib/secrets.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { type TestPlatform, memoryLog } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';

/** A project with limits that a test reaches quickly. */
export const projectWith = async (
  { client }: TestPlatform,
  { tables = 50, rows = 100 }: { tables?: number | null; rows?: number | null } = {},
): Promise<TestProject> => {
  const project = await client.createProject(await client.signUp());
  await asAdmin(project.dbName, (admin) =>
    admin.query('update plinth.limits set max_tables = $1, max_rows = $2', [tables, rows]),
  );
  return project;
};

/** As the project's owner. */
export const asOwner = async <T>(
  platform: TestPlatform,
  project: TestProject,
  work: (client: Pg) => Promise<T>,
): Promise<T> => asTenant(await tenantLogin(platform, project.id, 'owner'), work);

export const countOf = async (client: Pg, table: string): Promise<number> => {
  const { rows } = await client.query<{ n: number }>(`select count(*)::int as n from ${table}`);
  return rows[0]?.n ?? -1;
};

/** As many rows as wanted, for `insert into …`. */
export const numbers = (count: number): string => `select generate_series(1, ${count})`;

/** The servers of projects' databases, as the platform reaches them. */
export const withServers = async <T>(
  { db, config }: TestPlatform,
  work: (servers: DatabaseServers) => Promise<T>,
): Promise<T> => {
  const sealer = await openPlatformSealer(db, openKeyRing(config.PLINTH_SECRET_KEYS));
  const servers = createDatabaseServers({ db, sealer, controlUrl: config.DATABASE_URL, log: memoryLog().log });
  try {
    return await work(servers);
  } finally {
    await servers.close();
  }
};
