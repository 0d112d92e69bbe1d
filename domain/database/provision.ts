import { randomBytes } from 'node:crypto';
import { type Client, type Pool, escapeIdentifier, escapeLiteral } from 'pg';
import type { Project } from '#domain/projects/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type TenantRole, tenantRoles } from '#lib/tenant-db.ts';
import { roleName } from './names.ts';
import { retireDatabase } from './retire.ts';
import { scramVerifier } from './scram.ts';
import type { DatabaseServers } from './servers.ts';
import { ensureTemplate, migrateProjectDatabase } from './template.ts';

const connectionsPerProject = 60;

export interface ProvisionDeps {
  readonly db: ControlDb;
  readonly servers: DatabaseServers;
  readonly sealer: Sealer;
}

const passwordAbout = (kind: TenantRole): string => `database-role:${kind}`;

export const openPassword = (sealer: Sealer, kind: TenantRole, sealed: Buffer): string =>
  sealer.open(passwordAbout(kind), sealed);

/** The passwords that are already recorded win: a repeated run sets them again instead of making others. */
const rolePasswords = async (
  { db, sealer }: ProvisionDeps,
  project: Project,
): Promise<{ kind: TenantRole; password: string }[]> => {
  const fresh = tenantRoles.map((kind) => sealer.seal(passwordAbout(kind), randomBytes(24).toString('base64url')));
  await db.query(
    `insert into project_roles (project_id, kind, role_name, password_sealed)
     select $1, kind, role_name, sealed from unnest($2::text[], $3::text[], $4::bytea[]) as new (kind, role_name, sealed)
     on conflict do nothing`,
    [project.id, tenantRoles, tenantRoles.map((kind) => roleName(project.ref, kind)), fresh],
  );
  const rows = await db.query<{ kind: TenantRole; password_sealed: Buffer }>(
    'select kind, password_sealed from project_roles where project_id = $1',
    [project.id],
  );
  return rows.map(({ kind, password_sealed }) => ({ kind, password: openPassword(sealer, kind, password_sealed) }));
};

const attributes = {
  owner: 'inherit',
  api: 'noinherit',
  service: 'inherit',
  reader: 'inherit',
} as const satisfies Record<TenantRole, string>;

const createRoles = async (deps: ProvisionDeps, admin: Pool, project: Project): Promise<void> => {
  const roles = await rolePasswords(deps, project);
  const statements = await Promise.all(
    roles.map(async ({ kind, password }) => {
      const name = roleName(project.ref, kind);
      const options = `login ${attributes[kind]} connection limit ${connectionsPerProject} password ${escapeLiteral(await scramVerifier(password))}`;
      return `if exists (select from pg_roles where rolname = ${escapeLiteral(name)})
        then alter role ${escapeIdentifier(name)} ${options};
        else create role ${escapeIdentifier(name)} ${options}; end if;`;
    }),
  );
  const named = (kind: TenantRole): string => escapeIdentifier(roleName(project.ref, kind));
  await admin.query(`
    do $provision$ begin
      ${statements.join('\n')}
      grant anon, authenticated to ${named('api')};
      -- Only who has the attribute can hand it on; elsewhere a secret key works as the owner does.
      if (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) then
        alter role ${named('service')} bypassrls;
      else
        grant ${named('owner')} to ${named('service')};
        grant ${named('owner')} to current_user;
      end if;
    end $provision$`);
};

const markerOf = (project: Project): string => `plinth project ${project.id}`;

/** Whose database bears that name: null when there is none, '' when it was copied but not marked yet. */
const ownerOfDatabase = async (admin: Pool, name: string): Promise<string | null> => {
  const found = await admin.query<{ marker: string | null }>(
    `select shobj_description(oid, 'pg_database') as marker from pg_database where datname = $1`,
    [name],
  );
  return found.rows[0] === undefined ? null : (found.rows[0].marker ?? '');
};

const createDatabase = async ({ servers, db }: ProvisionDeps, admin: Pool, project: Project): Promise<void> => {
  const template = await ensureTemplate(servers, project.server_id);
  const name = escapeIdentifier(project.db_name);
  const marker = await ownerOfDatabase(admin, project.db_name);
  if (marker === markerOf(project)) return;
  // A deleted project had the same slug and its database still bears the name.
  if (marker) await retireDatabase({ servers, db }, marker.replace('plinth project ', ''));
  if (marker !== '') await admin.query(`create database ${name} template ${escapeIdentifier(template)}`);
  const named = tenantRoles.map((kind) => escapeIdentifier(roleName(project.ref, kind))).join(', ');
  await admin.query(`
    revoke connect, temporary on database ${name} from public;
    grant connect on database ${name} to ${named};
    grant create, temporary on database ${name} to ${escapeIdentifier(roleName(project.ref, 'owner'))};
    alter database ${name} connection limit ${connectionsPerProject};
    comment on database ${name} is ${escapeLiteral(markerOf(project))}`);
};

const openSchema = async (client: Client, ref: string): Promise<void> => {
  const named = (kind: TenantRole): string => escapeIdentifier(roleName(ref, kind));
  const byOwner = `alter default privileges for role ${named('owner')}`;
  await client.query(`
    grant usage, create on schema public to ${named('owner')};
    grant usage on schema public to anon, authenticated, ${named('service')}, ${named('reader')};
    ${byOwner} revoke execute on functions from public;
    ${byOwner} grant select on tables to ${named('reader')};
    ${byOwner} grant all on tables to ${named('service')};
    ${byOwner} grant all on sequences to ${named('service')};
    ${byOwner} grant execute on functions to ${named('service')}`);
};

/**
 * Makes a project's roles and database, or what is still missing of them: every step looks first or can be repeated.
 * The roles: `owner` (tables, SQL console, functions), `api` (may become anon or authenticated), `service` (a secret key),
 * `reader` (only SELECT). Interface, "What the service does", item 1.
 */
export const provisionDatabase = async (deps: ProvisionDeps, project: Project): Promise<void> => {
  await ensureTemplate(deps.servers, project.server_id);
  const admin = await deps.servers.admin(project.server_id);
  await createRoles(deps, admin, project);
  await createDatabase(deps, admin, project);
  const client = await deps.servers.connectTo(project.server_id, project.db_name);
  try {
    await migrateProjectDatabase(client);
    await openSchema(client, project.ref);
  } finally {
    await client.end();
  }
};
