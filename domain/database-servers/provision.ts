import { createHash, createHmac, pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { type TenantRole, idleInTransactionSeconds, statementTimeoutSeconds, tenantRoles } from '#lib/tenant-db.ts';
import { type Client, type ClientBase, escapeIdentifier, escapeLiteral } from 'pg';
import type { ControlDb } from '#lib/control-db.ts';
import type { Sealer } from '#lib/secrets.ts';
import { markerOf, projectOfDatabase, roleName, unfinishedDatabaseName, withDatabaseName } from './names.ts';
import { writeLimits } from './limits.ts';
import { freeDatabaseName } from './retire.ts';
import { type DatabaseServers, type HostedProject, findHosted } from './database-servers.ts';
import {
  ensureTemplate,
  forgetTemplate,
  migrateProjectDatabase,
  projectMigrations,
  versionOf,
  versionSetting,
} from './template.ts';

// Iterations slow down guessing. 192 random bits cannot be guessed, and 4096 iterations are half of the cost of logging
// in.
const iterations = 1;

/** Signs what the storage API may write; domain/storage/tickets.ts uses it, triggers check it. */
export const storageTicketKey = ({ keyFor }: Sealer): Buffer => keyFor('storage-ticket');

/**
 * A role's password as PostgreSQL stores it (RFC 5803): given in this form, the password itself never reaches the
 * server's log. For random passwords alone, and of ASCII characters, which need no SASLprep.
 */
export const scramVerifier = async (password: string): Promise<string> => {
  const salt = randomBytes(16);
  const salted = await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256');
  const keyed = (text: string): Buffer => createHmac('sha256', salted).update(text).digest();
  const storedKey = createHash('sha256').update(keyed('Client Key')).digest('base64');
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${keyed('Server Key').toString('base64')}`;
};

/** Settings that a superuser gives to a role and the role cannot change. */
const fixed: Readonly<Record<string, string>> = {
  temp_file_limit: '1GB',
  // RAISE LOG and failing statements would fill the server's log: there is nothing in it for the platform.
  log_min_messages: 'fatal',
  log_min_error_statement: 'panic',
  log_statement: 'none',
  log_min_duration_statement: '-1',
};

/** SQL within a DO block; `role` is quoted. */
const roleSettings = (kind: TenantRole, role: string): string => {
  const setAll = (settings: Readonly<Record<string, string>>): string =>
    Object.entries(settings)
      .map(([name, value]) => `alter role ${role} set ${name} = '${value}';`)
      .join('\n');
  return `
    ${setAll({
      statement_timeout: `${statementTimeoutSeconds[kind]}s`,
      idle_in_transaction_session_timeout: `${idleInTransactionSeconds}s`,
    })}
    if (select rolsuper from pg_roles where rolname = current_user) then
      ${setAll(fixed)}
    end if;`;
};

const connectionsPerProject = 60;

const namesOf = (names: readonly string[]): string => `array[${names.map(escapeLiteral).join(', ')}]`;

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
  project: HostedProject,
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
  auth: 'inherit',
  users: 'inherit',
} as const satisfies Record<TenantRole, string>;

const createRoles = async (deps: ProvisionDeps, admin: ClientBase, project: HostedProject): Promise<void> => {
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
      ${tenantRoles.map((kind) => roleSettings(kind, named(kind))).join('\n')}
      grant anon, authenticated to ${named('api')};
      grant plinth_auth to ${named('auth')};
      grant plinth_users to ${named('users')};
      -- For policies on storage.objects; from 16 on without the right to act as it (decision 062).
      if current_setting('server_version_num')::int >= 160000 then
        execute 'grant plinth_storage_owner to ${named('owner')} with inherit true, set false';
      else
        grant plinth_storage_owner to ${named('owner')};
      end if;
      -- Only who has the attribute can hand it on; elsewhere a secret key works as the owner does.
      if (select rolsuper or rolbypassrls from pg_roles where rolname = current_user) then
        alter role ${named('service')} bypassrls;
        -- Policies are for end users; who reads here is a member of the organization.
        alter role ${named('reader')} bypassrls;
      else
        grant ${named('owner')} to ${named('service')};
        grant ${tenantRoles.map(named).join(', ')} to current_user;
      end if;
    end $provision$`);
};

/** A copy of a database that nobody is connected to, which the roles of one project may enter. */
export interface DatabaseCopy {
  readonly name: string;
  readonly template: string;
  readonly ref: string;
  readonly connections: number;
}

/** Copies a database. No other role can connect to the copy before its rights are set; a database of the same name is replaced. */
export const copyDatabase = async (
  admin: ClientBase,
  { name, template, ref, connections }: DatabaseCopy,
): Promise<void> => {
  const database = escapeIdentifier(name);
  const named = (kind: TenantRole): string => escapeIdentifier(roleName(ref, kind));
  await admin.query(`drop database if exists ${database} with (force)`);
  await admin.query(
    `create database ${database} template ${escapeIdentifier(template)} allow_connections false connection limit ${connections}`,
  );
  await admin.query(`
    revoke connect, temporary on database ${database} from public;
    grant connect on database ${database} to ${tenantRoles.map(named).join(', ')};
    grant create, temporary on database ${database} to ${named('owner')};
    alter database ${database} with allow_connections true`);
};

/**
 * Under a name of its own until no other role can enter it and it is marked: a database under the real name is
 * complete.
 */
const copyTemplate = async (admin: ClientBase, project: HostedProject, template: string): Promise<void> => {
  const unfinished = unfinishedDatabaseName(project.ref);
  await copyDatabase(admin, { name: unfinished, template, ref: project.ref, connections: connectionsPerProject });
  const name = escapeIdentifier(unfinished);
  await admin.query(`
    comment on database ${name} is ${escapeLiteral(markerOf(project.id))};
    alter database ${name} rename to ${escapeIdentifier(project.db_name)}`);
};

const createDatabase = async (deps: ProvisionDeps, admin: ClientBase, project: HostedProject): Promise<void> => {
  const present = await projectOfDatabase(admin, project.db_name);
  if (present === project.id) return;
  // A deleted project had the same slug and its database still bears the name.
  const before = present === null ? undefined : await findHosted(deps.db, present);
  if (before?.deleted_at) await freeDatabaseName(admin, before);
  const template = await ensureTemplate(deps.servers, project.server_id);
  await copyTemplate(admin, project, template).catch((error: unknown) => {
    // The template may be gone: the next attempt searches for it again.
    forgetTemplate(deps.servers, project.server_id);
    throw error;
  });
};

const openSchema = async (client: Client, ref: string): Promise<void> => {
  const named = (kind: TenantRole): string => escapeIdentifier(roleName(ref, kind));
  const byOwner = `alter default privileges for role ${named('owner')}`;
  await client.query(`
    grant usage, create on schema public to ${named('owner')};
    do $$ begin
      -- Taken from everybody where the platform is a superuser; elsewhere everybody has them anyway.
      if (select rolsuper from pg_roles where rolname = current_user) then
        grant execute on function lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea)
          to ${named('owner')}, ${named('service')};
      end if;
    end $$;
    grant usage on schema public to anon, authenticated, ${named('service')}, ${named('reader')};
    -- The roles that came later, in databases that were made before them.
    do $$ begin
      execute format('grant connect on database %I to %I, %I', current_database(),
        ${escapeLiteral(roleName(ref, 'auth'))}, ${escapeLiteral(roleName(ref, 'users'))});
    end $$;
    -- Functions that requests call may use temporary tables; the data API drops them when the request is over.
    do $$ begin
      execute format('grant temporary on database %I to anon, authenticated, %I, %I', current_database(),
        ${escapeLiteral(roleName(ref, 'api'))}, ${escapeLiteral(roleName(ref, 'service'))});
    end $$;
    ${byOwner} revoke execute on functions from public;
    ${byOwner} grant select on tables to ${named('reader')};
    ${byOwner} grant all on tables to ${named('service')};
    ${byOwner} grant all on sequences to ${named('service')};
    ${byOwner} grant execute on functions to ${named('service')};
    select plinth.set_roles(${namesOf(tenantRoles)}, ${namesOf(tenantRoles.map((kind) => roleName(ref, kind)))})`);
};

/**
 * Records at a database's entry on the server the version of its platform schema. With the number of the database: one
 * that was restored from a dump is checked again, since a dump holds nothing of the server's catalog.
 */
const noteVersion = async (client: Client, version: string): Promise<void> => {
  await client.query(`
    do $$ begin
      execute format('alter database %I set ${versionSetting} = %L', current_database(),
        '${version}.' || (select oid from pg_database where datname = current_database()));
    end $$`);
};

/** Everything of the platform that a project's database holds beyond the template. */
export const fillDatabase = async ({ servers, sealer }: ProvisionDeps, project: HostedProject): Promise<void> => {
  const client = await servers.connectTo(project.server_id, project.db_name);
  try {
    const migrations = await projectMigrations();
    // No session in the database waits longer for the locks that this waits for; a failed step is retried.
    await client.query(`set lock_timeout = '2s'; set statement_timeout = '55s'`);
    await migrateProjectDatabase(client, migrations);
    await client.query('select plinth.guard_catalog()');
    await openSchema(client, project.ref);
    await client.query('select plinth.set_storage($1, $2)', [storageTicketKey(sealer), project.slug]);
    await writeLimits(client, project.plan);
    await noteVersion(client, versionOf(migrations));
  } finally {
    await client.end();
  }
};

/**
 * Creates a project's roles and database, or the missing parts of them: every step checks first or can be repeated. The
 * roles: `owner` (tables, SQL console, functions), `api` (may become anon or authenticated), `service` (a secret key),
 * `reader` (only SELECT), `auth` and `users` (the users of the project's application). Interface, "What the service does", item 1.
 */
export const provisionDatabase = async (deps: ProvisionDeps, project: HostedProject): Promise<void> => {
  await ensureTemplate(deps.servers, project.server_id);
  const admin = await deps.servers.admin(project.server_id);
  await withDatabaseName(admin, project.db_name, async (client) => {
    await createRoles(deps, client, project);
    await createDatabase(deps, client, project);
    await fillDatabase(deps, project);
  });
};

/**
 * Brings an existing project's roles and database to what a new project's are like. Can be repeated.
 * @throws {Error} when the database of that name is not the project's
 */
export const upgradeDatabase = async (deps: ProvisionDeps, project: HostedProject): Promise<void> => {
  const admin = await deps.servers.admin(project.server_id);
  await withDatabaseName(admin, project.db_name, async (client) => {
    if ((await projectOfDatabase(client, project.db_name)) !== project.id)
      throw new Error(`the project has no database ${project.db_name}`);
    await createRoles(deps, client, project);
    await fillDatabase(deps, project);
  });
};
