import { Client } from 'pg';
import { openPassword } from '#domain/database-servers/provision.ts';
import { findProject } from '#domain/projects/store.ts';
import { openKeyRing } from '#lib/secrets.ts';
import type { TenantLogin } from '#lib/tenant-connections.ts';
import type { TenantRole } from '#lib/tenant-db.ts';
import { testEnv } from './env.ts';
import type { TestPlatform } from './platform.ts';

/** With what a role of a project signs in to its database. */
export const tenantLogin = async (
  { db, config }: Pick<TestPlatform, 'db' | 'config'>,
  projectId: string,
  role: TenantRole,
): Promise<TenantLogin> => {
  const project = await findProject(db, projectId);
  const [row] = await db.query<{ role_name: string; password_sealed: Buffer }>(
    'select role_name, password_sealed from project_roles where project_id = $1 and kind = $2',
    [projectId, role],
  );
  if (project === undefined || row === undefined) throw new Error('the project has no roles');
  const sealer = openKeyRing(config.PLINTH_SECRET_KEYS).sealerFor(project.id, project.data_key);
  const { hostname, port } = new URL(testEnv('DATABASE_URL'));
  return {
    host: hostname,
    port: Number(port),
    database: project.db_name,
    user: row.role_name,
    password: openPassword(sealer, role, row.password_sealed),
  };
};

/** Signs in and works. */
export const asTenant = async <T>(login: TenantLogin, work: (client: Client) => Promise<T>): Promise<T> => {
  const client = new Client({ ...login });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
};

/** The SQLSTATE that work ends with; null when it works. */
export const sqlStateOf = async (work: Promise<unknown>): Promise<string | null> => {
  try {
    await work;
    return null;
  } catch (error) {
    return String(Reflect.get(error as object, 'code') ?? error);
  }
};
