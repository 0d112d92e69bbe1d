import { type ClientBase, escapeIdentifier, escapeLiteral } from 'pg';
import type { Project } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import { tenantRoles } from '#lib/tenant-db.ts';
import { projectOfDatabase, withDatabaseName } from '../guard/ownership.ts';
import { deletedDatabaseName, roleName } from '../tables/names.ts';
import type { DatabaseServers } from './servers.ts';

const letIn = async (admin: ClientBase, { ref }: Project): Promise<void> => {
  const names = tenantRoles.map((kind) => escapeLiteral(roleName(ref, kind))).join(', ');
  await admin.query(
    `do $$ declare name text; begin
       for name in select rolname from pg_roles where rolname in (${names}) loop
         execute format('alter role %I login', name);
       end loop;
     end $$`,
  );
};

/** The name that the project's database has now; a deletion that broke off has left it its own. */
const presentName = async (admin: ClientBase, project: Project): Promise<string> => {
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
  project: Project,
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
    await letIn(client, project);
    await record();
  };
  await withDatabaseName(admin, project.db_name, (client) =>
    project.db_name === newName ? reopen(client) : withDatabaseName(admin, newName, () => reopen(client)),
  );
};
