import { escapeIdentifier } from 'pg';
import { type Project, findProject } from '#domain/projects/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { tenantRoles } from '#lib/tenant-db.ts';
import { deletedDatabaseName, roleName } from './names.ts';
import type { DatabaseServers } from './servers.ts';

interface RetireDeps {
  readonly db: ControlDb;
  readonly servers: DatabaseServers;
}

const roleNames = (project: Project): string[] => tenantRoles.map((kind) => roleName(project.ref, kind));

/**
 * Locks everyone out of a deleted project's database and frees its name. The data stays until `dropDatabase`.
 * Can be repeated; does nothing for a project that is not deleted.
 */
export const retireDatabase = async ({ db, servers }: RetireDeps, projectId: string): Promise<void> => {
  const project = await findProject(db, projectId);
  if (project === undefined || project.deleted_at === null) return;
  const admin = await servers.admin(project.server_id);
  const roles = roleNames(project);
  await admin.query(
    `do $$ declare name text; begin
       for name in select rolname from pg_roles where rolname = any (string_to_array('${roles.join(',')}', ',')) loop
         execute format('alter role %I nologin', name);
       end loop;
     end $$`,
  );
  const found = await admin.query('select from pg_database where datname = $1', [project.db_name]);
  if (found.rows.length === 0) return;
  const name = escapeIdentifier(project.db_name);
  await admin.query(`alter database ${name} with allow_connections false`);
  await admin.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [project.db_name]);
  await admin.query(`alter database ${name} rename to ${escapeIdentifier(deletedDatabaseName(project.ref))}`);
};

/** Drops a deleted project's database and roles for good. Can be repeated. */
export const dropDatabase = async ({ db, servers }: RetireDeps, project: Project): Promise<void> => {
  await retireDatabase({ db, servers }, project.id);
  const admin = await servers.admin(project.server_id);
  await admin.query(`drop database if exists ${escapeIdentifier(deletedDatabaseName(project.ref))} with (force)`);
  const names = roleNames(project).map(escapeIdentifier).join(', ');
  await admin.query(`drop role if exists ${names}`);
};
