import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { type Client, escapeIdentifier, escapeLiteral } from 'pg';
import { type DatabaseServers, maintenanceDatabase } from './database-servers.ts';

const directory = path.join(import.meta.dirname, '../../migrations/project');

// Held while a template is built; the same number on every server.
const templateLock = 7_245_032;

export interface ProjectMigration {
  readonly version: number;
  readonly sql: string;
}

const readMigrations = async (): Promise<ProjectMigration[]> => {
  const files = (await readdir(directory)).filter((file) => file.endsWith('.sql')).toSorted();
  return Promise.all(
    files.map(async (file) => ({
      version: Number(file.slice(0, 4)),
      sql: await readFile(path.join(directory, file), 'utf8'),
    })),
  );
};

let known: Promise<ProjectMigration[]> | undefined;
/** The versions of what every project database holds, in order. */
export const projectMigrations = (): Promise<ProjectMigration[]> => (known ??= readMigrations());

/** Brings one project database to the newest version; each version whole or not at all. */
export const migrateProjectDatabase = async (
  client: Client,
  migrations: readonly ProjectMigration[],
): Promise<void> => {
  const has = await client.query<{ table: string | null }>(`select to_regclass('plinth.migrations') as table`);
  const versions = !has.rows[0]?.table
    ? []
    : (await client.query<{ version: number }>('select version from plinth.migrations')).rows;
  const done = new Set(versions.map((row) => row.version));
  for (const { version, sql } of migrations.filter((migration) => !done.has(migration.version))) {
    await client.query(`begin; ${sql}; insert into plinth.migrations (version) values (${version}); commit`);
  }
};

/** Returns the fingerprint of the migrations' state: 12 hexadecimal digits. */
export const versionOf = (migrations: readonly ProjectMigration[]): string => {
  const hash = createHash('sha256');
  for (const { sql } of migrations) hash.update(sql);
  return hash.digest('hex').slice(0, 12);
};

/** The setting of a database that says `<version>.<number of the database>`. */
export const versionSetting = 'plinth.version';

const templateName = (migrations: readonly ProjectMigration[]): string => `plinth_template_${versionOf(migrations)}`;

const exists = async (client: Client, database: string): Promise<boolean> =>
  (await client.query('select from pg_database where datname = $1', [database])).rows.length > 0;

interface TemplateMaker {
  readonly servers: DatabaseServers;
  readonly serverId: string;
  readonly admin: Client;
  readonly migrations: readonly ProjectMigration[];
}

/**
 * Under another name until it is complete: a half-built template is never copied, and no session is connected to a
 * complete one.
 */
const build = async ({ servers, serverId, admin, migrations }: TemplateMaker, name: string): Promise<void> => {
  const draft = escapeIdentifier(`${name}_draft`);
  await admin.query(`drop database if exists ${draft} with (force)`);
  await admin.query(`create database ${draft} template template0 encoding 'UTF8'`);
  await admin.query(`revoke connect, temporary on database ${draft} from public`);
  const client = await servers.connectTo(serverId, `${name}_draft`);
  try {
    await migrateProjectDatabase(client, migrations);
  } finally {
    await client.end();
  }
  await admin.query(`alter database ${draft} with allow_connections false`);
  await admin.query(`alter database ${draft} rename to ${escapeIdentifier(name)}`);
};

/** Roles that migrations of project databases grant to, the same on the whole server; none can sign in. */
const serverRoles = [
  'anon',
  'authenticated',
  'plinth_events',
  'plinth_triggers',
  'plinth_users_owner',
  'plinth_users',
  'plinth_auth',
  'plinth_storage_owner',
];

// Cluster-wide: what end users of every project act as, what events are written as, and that no project gets into the
// platform's own databases.
const prepareServer = async (admin: Client, ownDatabases: readonly string[]): Promise<void> => {
  await admin.query(`
    do $$ declare name text; begin
      foreach name in array array[${serverRoles.map(escapeLiteral).join(', ')}] loop
        if not exists (select from pg_roles where rolname = name) then
          execute format('create role %I nologin noinherit', name);
        end if;
      end loop;
    end $$`);
  for (const name of ownDatabases)
    await admin.query(`revoke connect, temporary on database ${escapeIdentifier(name)} from public`);
};

/**
 * Makes the template of that server when it is missing; several processes may try at once, one does it.
 * @returns its name
 */
export const makeTemplate = async (
  servers: DatabaseServers,
  serverId: string,
  migrations: readonly ProjectMigration[],
): Promise<string> => {
  const name = templateName(migrations);
  const admin = await servers.connectTo(serverId, maintenanceDatabase);
  try {
    await admin.query('select pg_advisory_lock($1)', [templateLock]);
    await prepareServer(admin, await servers.ownDatabases(serverId));
    if (!(await exists(admin, name))) await build({ servers, serverId, admin, migrations }, name);
    return name;
  } finally {
    await admin.end();
  }
};

const ready = new WeakMap<DatabaseServers, Map<string, Promise<string>>>();

const readyOn = (servers: DatabaseServers): Map<string, Promise<string>> => {
  const known = ready.get(servers) ?? new Map<string, Promise<string>>();
  ready.set(servers, known);
  return known;
};

export const forgetTemplate = (servers: DatabaseServers, serverId: string): void => {
  readyOn(servers).delete(serverId);
};

/** The name of the database that new project databases of that server are copied from. */
export const ensureTemplate = (servers: DatabaseServers, serverId: string): Promise<string> => {
  const known = readyOn(servers).get(serverId);
  if (known) return known;
  const making = projectMigrations().then((migrations) => makeTemplate(servers, serverId, migrations));
  readyOn(servers).set(serverId, making);
  making.catch(() => forgetTemplate(servers, serverId));
  return making;
};
