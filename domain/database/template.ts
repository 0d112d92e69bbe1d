import { createHash } from 'node:crypto';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { type Client, escapeIdentifier } from 'pg';
import type { DatabaseServers } from './servers.ts';

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
export const migrateProjectDatabase = async (client: Client): Promise<void> => {
  const migrations = await projectMigrations();
  const has = await client.query<{ table: string | null }>(`select to_regclass('plinth.migrations') as table`);
  const versions = !has.rows[0]?.table
    ? []
    : (await client.query<{ version: number }>('select version from plinth.migrations')).rows;
  const done = new Set(versions.map((row) => row.version));
  for (const { version, sql } of migrations.filter((migration) => !done.has(migration.version))) {
    await client.query(`begin; ${sql}; insert into plinth.migrations (version) values (${version}); commit`);
  }
};

const templateName = async (): Promise<string> => {
  const hash = createHash('sha256');
  for (const { sql } of await projectMigrations()) hash.update(sql);
  return `plinth_template_${hash.digest('hex').slice(0, 12)}`;
};

const exists = async (client: Client, database: string): Promise<boolean> =>
  (await client.query('select from pg_database where datname = $1', [database])).rows.length > 0;

/** Under another name until it is whole: nobody copies a half-built template, and no one is connected to a whole one. */
const build = async (servers: DatabaseServers, serverId: string, admin: Client, name: string): Promise<void> => {
  const draft = `${name}_draft`;
  await admin.query(`drop database if exists ${escapeIdentifier(draft)} with (force)`);
  await admin.query(`create database ${escapeIdentifier(draft)} template template0 encoding 'UTF8'`);
  await admin.query(`revoke connect, temporary on database ${escapeIdentifier(draft)} from public`);
  const client = await servers.connectTo(serverId, draft);
  try {
    await migrateProjectDatabase(client);
  } finally {
    await client.end();
  }
  await admin.query(`alter database ${escapeIdentifier(draft)} rename to ${escapeIdentifier(name)}`);
  await admin.query(`alter database ${escapeIdentifier(name)} with allow_connections false is_template true`);
};

// Cluster-wide: what end users of every project act as, and what nobody may do on the platform's own databases.
const prepareServer = `
do $$ begin
  if not exists (select from pg_roles where rolname = 'anon') then create role anon nologin noinherit; end if;
  if not exists (select from pg_roles where rolname = 'authenticated') then create role authenticated nologin noinherit; end if;
end $$;
do $$ declare name text; begin
  for name in select datname from pg_database where datname in (current_database(), 'template1') loop
    execute format('revoke connect, temporary on database %I from public', name);
  end loop;
end $$;
`;

const ready = new Map<string, Promise<string>>();

const ensure = async (servers: DatabaseServers, serverId: string): Promise<string> => {
  const name = await templateName();
  const admin = await servers.connectTo(serverId, 'postgres');
  try {
    await admin.query('select pg_advisory_lock($1)', [templateLock]);
    await admin.query(prepareServer);
    if (!(await exists(admin, name))) await build(servers, serverId, admin, name);
    return name;
  } finally {
    await admin.end();
  }
};

/** The name of the database that new project databases of that server are copied from; made when it is missing. */
export const ensureTemplate = (servers: DatabaseServers, serverId: string): Promise<string> => {
  const known = ready.get(serverId);
  if (known) return known;
  const making = ensure(servers, serverId);
  ready.set(serverId, making);
  making.catch(() => ready.delete(serverId));
  return making;
};
