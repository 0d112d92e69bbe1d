import { type ClientBase, escapeIdentifier, escapeLiteral } from 'pg';
import { type Project, findProject } from '#domain/projects/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { tenantRoles } from '#lib/tenant-db.ts';
import { deletedDatabaseName, roleName, unfinishedDatabaseName } from '../tables/names.ts';
import { projectOfDatabase, withDatabaseName } from '../guard/ownership.ts';
import type { DatabaseServers } from './servers.ts';

export interface RetireDeps {
  readonly db: ControlDb;
  readonly servers: DatabaseServers;
}

const roleNames = (project: Project): string[] => tenantRoles.map((kind) => roleName(project.ref, kind));

/**
 * Renames a deleted project's database, under the lock of its name. The data stays until `dropDatabase`. Does nothing
 * when the name is another project's by now.
 */
export const freeDatabaseName = async (admin: ClientBase, project: Project): Promise<void> => {
  if ((await projectOfDatabase(admin, project.db_name)) !== project.id) return;
  const name = escapeIdentifier(project.db_name);
  await admin.query(`alter database ${name} with allow_connections false`);
  await admin.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [
    project.db_name,
  ]);
  await admin.query(`alter database ${name} rename to ${escapeIdentifier(deletedDatabaseName(project.ref))}`);
};

const lockOut = async (admin: ClientBase, project: Project): Promise<void> => {
  const names = roleNames(project).map(escapeLiteral).join(', ');
  await admin.query(
    `do $$ declare name text; begin
       for name in select rolname from pg_roles where rolname in (${names}) loop
         execute format('alter role %I nologin', name);
       end loop;
     end $$`,
  );
};

/**
 * Locks everyone out of a deleted project's database and frees its name. Can be repeated; does nothing for a project
 * that is not deleted.
 */
export const retireDatabase = async ({ db, servers }: RetireDeps, projectId: string): Promise<void> => {
  const project = await findProject(db, projectId);
  if (project === undefined || project.deleted_at === null) return;
  const admin = await servers.admin(project.server_id);
  await withDatabaseName(admin, project.db_name, async (client) => {
    // Within the lock: operators may have restored it in the meantime.
    const now = await findProject(db, projectId);
    if (now === undefined || now.deleted_at === null) return;
    await lockOut(client, project);
    await freeDatabaseName(client, project);
  });
};

/** Drops a deleted project's database and roles for good. Can be repeated. */
export const dropDatabase = async (deps: RetireDeps, project: Project): Promise<void> => {
  await retireDatabase(deps, project.id);
  const admin = await deps.servers.admin(project.server_id);
  for (const name of [deletedDatabaseName(project.ref), unfinishedDatabaseName(project.ref)])
    await admin.query(`drop database if exists ${escapeIdentifier(name)} with (force)`);
  const names = roleNames(project).map(escapeIdentifier).join(', ');
  await admin.query(`drop role if exists ${names}`);
};
