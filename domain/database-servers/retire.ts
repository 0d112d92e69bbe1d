import { type ClientBase, escapeIdentifier, escapeLiteral } from 'pg';
import type { ControlDb } from '#lib/control-db.ts';
import { tenantRoles } from '#lib/tenant-db.ts';
import { deletedDatabaseName, projectOfDatabase, roleName, unfinishedDatabaseName, withDatabaseName } from './names.ts';
import { type DatabaseServers, type HostedProject, findHosted } from './database-servers.ts';
import { ServiceError } from '#lib/errors.ts';

interface RetireDeps {
  readonly db: ControlDb;
  readonly servers: DatabaseServers;
}

const roleNames = (project: HostedProject): string[] => tenantRoles.map((kind) => roleName(project.ref, kind));

/**
 * Renames a deleted project's database, under the lock of its name. The data stays until `dropDatabase`. Does nothing
 * when the name is another project's by now.
 */
export const freeDatabaseName = async (admin: ClientBase, project: HostedProject): Promise<void> => {
  if ((await projectOfDatabase(admin, project.db_name)) !== project.id) return;
  const name = escapeIdentifier(project.db_name);
  await admin.query(`alter database ${name} with allow_connections false`);
  await admin.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [
    project.db_name,
  ]);
  await admin.query(`alter database ${name} rename to ${escapeIdentifier(deletedDatabaseName(project.ref))}`);
};

const setLogin = async (admin: ClientBase, project: HostedProject, login: 'login' | 'nologin'): Promise<void> => {
  const names = roleNames(project).map(escapeLiteral).join(', ');
  await admin.query(
    `do $$ declare name text; begin
       for name in select rolname from pg_roles where rolname in (${names}) loop
         execute format('alter role %I ${login}', name);
       end loop;
     end $$`,
  );
};

/**
 * Locks everyone out of a deleted project's database and frees its name. Can be repeated; does nothing for a project
 * that is not deleted.
 */
export const retireDatabase = async ({ db, servers }: RetireDeps, projectId: string): Promise<void> => {
  const project = await findHosted(db, projectId);
  if (project === undefined || project.deleted_at === null) return;
  const admin = await servers.admin(project.server_id);
  await withDatabaseName(admin, project.db_name, async (client) => {
    // Within the lock: operators may have restored it in the meantime.
    const now = await findHosted(db, projectId);
    if (now === undefined || now.deleted_at === null) return;
    await setLogin(client, project, 'nologin');
    await freeDatabaseName(client, project);
  });
};

/** Drops a deleted project's database and roles for good. Can be repeated. */
export const dropDatabase = async (deps: RetireDeps, project: HostedProject): Promise<void> => {
  await retireDatabase(deps, project.id);
  const admin = await deps.servers.admin(project.server_id);
  for (const name of [deletedDatabaseName(project.ref), unfinishedDatabaseName(project.ref)])
    await admin.query(`drop database if exists ${escapeIdentifier(name)} with (force)`);
  const names = roleNames(project).map(escapeIdentifier).join(', ');
  await admin.query(`drop role if exists ${names}`);
};

/** The name that the project's database has now; a deletion that broke off has left it its own. */
const presentName = async (admin: ClientBase, project: HostedProject): Promise<string> => {
  for (const name of [deletedDatabaseName(project.ref), project.db_name]) {
    if ((await projectOfDatabase(admin, name)) === project.id) return name;
  }
  throw new ServiceError('expired', 'The database of this project is not there any more.');
};

/**
 * Opens the database of a deleted project again under `newName`. `record` is to make the project's row say so: it runs
 * while both names are locked, so that a deletion that goes on meanwhile comes before it or finds the project restored.
 * @throws {ServiceError} `expired` when the database was dropped, `slug_taken` when another project's has the name
 */
export const reopenDatabase = async (
  servers: DatabaseServers,
  project: HostedProject,
  { newName, record }: { readonly newName: string; readonly record: () => Promise<void> },
): Promise<void> => {
  const admin = await servers.admin(project.server_id);
  const reopen = async (client: ClientBase): Promise<void> => {
    const present = await presentName(client, project);
    if (present !== newName && (await projectOfDatabase(client, newName)) !== null) {
      throw new ServiceError('slug_taken', 'Another database has the name that goes with this slug.', {
        hint: 'Give another `slug`.',
      });
    }
    if (present !== newName) {
      await client.query(`alter database ${escapeIdentifier(present)} rename to ${escapeIdentifier(newName)}`);
    }
    await client.query(`alter database ${escapeIdentifier(newName)} with allow_connections true`);
    await setLogin(client, project, 'login');
    await record();
  };
  await withDatabaseName(admin, project.db_name, (client) =>
    project.db_name === newName ? reopen(client) : withDatabaseName(admin, newName, () => reopen(client)),
  );
};
