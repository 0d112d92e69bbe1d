import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { Client, escapeIdentifier } from 'pg';
import { controlMigrations } from '#domain/control-schema.ts';
import { migrate } from '#lib/migrate.ts';
import { testEnv } from './env.ts';

const templateLock = 7_245_990;

const urlTo = (database: string): string => {
  const url = new URL(testEnv('DATABASE_URL'));
  url.pathname = `/${database}`;
  return url.toString();
};

/** A connection as the test server's superuser to any of its databases, ended when the work is done. */
export const asAdmin = async <T>(database: string, work: (client: Client) => Promise<T>): Promise<T> => {
  const client = new Client({ connectionString: urlTo(database) });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
};

/** Runs statements as the superuser in a transaction that stays open. @returns what ends it */
export const hold = async (database: string, ...statements: readonly string[]): Promise<() => Promise<void>> => {
  const held = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const done = asAdmin(database, async (client) => {
    await client.query('begin');
    for (const sql of statements) await client.query(sql);
    held.resolve();
    await released.promise;
    await client.query('rollback');
  });
  await Promise.race([held.promise, done]);
  return () => {
    released.resolve();
    return done;
  };
};

/** Named by what the migrations say, so that a changed migration gets a new template. */
const templateName = (): string => {
  const hash = createHash('sha256');
  for (const file of readdirSync(controlMigrations).toSorted())
    hash.update(readFileSync(path.join(controlMigrations, file)));
  return `plinth_test_template_${hash.digest('hex').slice(0, 12)}`;
};

const ensureTemplate = async (client: Client): Promise<string> => {
  const name = templateName();
  await client.query('select pg_advisory_lock($1)', [templateLock]);
  const found = await client.query('select from pg_database where datname = $1', [name]);
  if (found.rows.length > 0) return name;
  const draft = `${name}_draft`;
  await client.query(`drop database if exists ${escapeIdentifier(draft)} with (force)`);
  await client.query(`create database ${escapeIdentifier(draft)} template template0`);
  await migrate(urlTo(draft), controlMigrations);
  await client.query(`alter database ${escapeIdentifier(draft)} rename to ${escapeIdentifier(name)}`);
  return name;
};

export interface TestDatabase {
  readonly url: string;
  readonly drop: () => Promise<void>;
}

const createDatabase = async (client: Client, template: string): Promise<TestDatabase> => {
  const name = `plinth_test_${randomBytes(6).toString('hex')}`;
  await client.query(`create database ${escapeIdentifier(name)} template ${escapeIdentifier(template)}`);
  const drop = `drop database if exists ${escapeIdentifier(name)} with (force)`;
  return { url: urlTo(name), drop: () => asAdmin('postgres', async (admin) => void (await admin.query(drop))) };
};

/** A control database of its own for one test file: a copy of a migrated template, made in some 30 ms. */
export const createTestDatabase = (): Promise<TestDatabase> =>
  asAdmin('postgres', async (client) => createDatabase(client, await ensureTemplate(client)));

/** An empty database, for what starts from nothing. */
export const createEmptyDatabase = (): Promise<TestDatabase> =>
  asAdmin('postgres', (client) => createDatabase(client, 'template0'));

/** Drops the databases and roles that the projects of a control database left on the server. */
export const dropProjectDatabases = async (controlUrl: string): Promise<void> => {
  const control = new Client({ connectionString: controlUrl });
  await control.connect();
  const { rows } = await control.query<{ db_name: string; ref: string }>('select db_name, ref from projects');
  await control.end();
  await asAdmin('postgres', async (admin) => {
    for (const { db_name, ref } of rows) {
      await admin.query(`drop database if exists ${escapeIdentifier(db_name)} with (force)`);
      await admin.query(`drop database if exists ${escapeIdentifier(`plinth_deleted_${ref}`)} with (force)`);
      const roles = ['owner', 'api', 'service', 'reader'].map((kind) => escapeIdentifier(`${ref}_${kind}`));
      await admin.query(`drop role if exists ${roles.join(', ')}`);
    }
  });
};
