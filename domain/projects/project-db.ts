import { DatabaseError, escapeIdentifier, escapeLiteral } from 'pg';
import { roleName, withDatabaseName } from '#domain/database-servers/names.ts';
import { scramVerifier } from '#domain/database-servers/provision.ts';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import type { TenantLogin } from '#lib/tenant-connections.ts';
import { type TenantDb, type TenantRole, createTenantDb, tenantRoles } from '#lib/tenant-db.ts';
import { findProject } from './store.ts';

export interface ProjectDbOptions {
  readonly db: Queryable;
  readonly servers: DatabaseServers;
  readonly budget: number;
  readonly login: (projectId: string, role: TenantRole) => Promise<TenantLogin>;
  readonly log: Log;
}

/** The ways into projects' databases, and out of them. */
export interface ProjectDb extends TenantDb {
  /**
   * Ends a session of one of the project's roles, whatever it does, over the platform's own connection. Nothing happens
   * when there is no such session any more.
   * @returns whether there was one; some do not end at once
   */
  readonly endSession: (projectId: string, processId: number) => Promise<boolean | void>;
}

const endSessionWith =
  ({ db, servers }: ProjectDbOptions): ProjectDb['endSession'] =>
  async (projectId, processId) => {
    const project = await findProject(db, projectId);
    if (project === undefined) return false;
    const admin = await servers.admin(project.server_id);
    // By the role, too: the number may be another session's by now.
    const { rows } = await admin.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where pid = $1 and usename = any ($2::text[])',
      [processId, tenantRoles.map((kind) => roleName(project.ref, kind))],
    );
    return rows.length > 0;
  };

const isPasswordRefused = (error: unknown): boolean => error instanceof DatabaseError && error.code === '28P01';

/** Sets the password of a role that is recorded: a role can change its own. */
const restorePassword = async (
  { db, servers, login, log }: ProjectDbOptions,
  projectId: string,
  role: TenantRole,
): Promise<void> => {
  const project = await findProject(db, projectId);
  if (project === undefined) return;
  const { user, password } = await login(projectId, role);
  const verifier = await scramVerifier(password);
  const admin = await servers.admin(project.server_id);
  await withDatabaseName(admin, project.db_name, (client) =>
    client.query(`alter role ${escapeIdentifier(user)} password ${escapeLiteral(verifier)}`),
  );
  log.warn({ project_id: projectId, role }, 'a role did not have its recorded password; it was set again');
};

type Use = TenantDb['use'];

/** Signs in once more when the role's password was not the recorded one. */
const restoringUse =
  (options: ProjectDbOptions, use: Use): Use =>
  async (projectId, role, work) => {
    let entered = false;
    const enter: typeof work = (client) => {
      entered = true;
      return work(client);
    };
    try {
      return await use(projectId, role, enter);
    } catch (error) {
      if (entered || !isPasswordRefused(error)) throw error;
    }
    await restorePassword(options, projectId, role);
    return use(projectId, role, work);
  };

/** The tenant connections, with what only the platform's own role can do about them. */
export const createProjectDb = (options: ProjectDbOptions): ProjectDb => {
  const tenantDb = createTenantDb(options);
  return {
    ...tenantDb,
    endSession: endSessionWith(options),
    lease: async (projectId, role) => {
      try {
        return await tenantDb.lease(projectId, role);
      } catch (error) {
        if (!isPasswordRefused(error)) throw error;
      }
      await restorePassword(options, projectId, role);
      return tenantDb.lease(projectId, role);
    },
    use: restoringUse(options, tenantDb.use),
    useAtLowPriority: restoringUse(options, tenantDb.useAtLowPriority),
  };
};
