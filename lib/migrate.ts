import { readdir } from 'node:fs/promises';
import type { Knex } from 'knex';
import { Client } from 'pg';
import type { Log } from './log.ts';

// Any number that nothing else locks; the same in every process that migrates the same database.
const migrationLock = 7_245_031;

const appliedMigrations = async (url: string): Promise<string[]> => {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 2000, query_timeout: 2000 });
  // A connection that breaks is an error of the query below.
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<{ name: string }>('select name from migrations')).rows.map((row) => row.name);
  } finally {
    await client.end();
  }
};

/** Whether every migration in `directory` was applied. A database that is away or empty is not current. */
export const schemaIsCurrent = async (url: string, directory: string): Promise<boolean> => {
  const wanted = (await readdir(directory)).filter((file) => file.endsWith('.ts'));
  const applied = new Set(await appliedMigrations(url).catch(() => []));
  return wanted.every((file) => applied.has(file));
};

const migrateWithKnex = async (url: string, directory: string): Promise<void> => {
  // Loaded for this only: 6 MB that a process with nothing to migrate does not need.
  const { default: knexFactory } = await import('knex');
  const knex = knexFactory({
    client: 'pg',
    connection: { connectionString: url, connectionTimeoutMillis: 10_000 },
    pool: { min: 1, max: 2 },
    migrations: { directory, loadExtensions: ['.ts'], tableName: 'migrations' },
  });
  try {
    await knex.transaction(async (lock: Knex.Transaction) => {
      await lock.raw('select pg_advisory_xact_lock(?)', [migrationLock]);
      await knex.migrate.forceFreeMigrationsLock();
      await knex.migrate.latest();
    });
  } finally {
    await knex.destroy();
  }
};

/**
 * Brings a database to the newest migration in `directory`; several processes may try at once, one does it.
 * knex keeps a lock row of its own, which a killed process leaves behind: the advisory lock, which dies with its
 * connection, is what protects here, and the row is cleared under it.
 */
export const migrate = async (url: string, directory: string): Promise<void> => {
  if (!(await schemaIsCurrent(url, directory))) await migrateWithKnex(url, directory);
};

const firstPauseMs = 50;
const slowestPauseMs = 2000;

/** Waits until somebody has migrated the database: API and workers start in any order. */
export const waitForSchema = async (url: string, directory: string, log: Log): Promise<void> => {
  for (
    let pauseMs = firstPauseMs;
    !(await schemaIsCurrent(url, directory));
    pauseMs = Math.min(pauseMs * 2, slowestPauseMs)
  ) {
    if (pauseMs === slowestPauseMs) log.info('waiting for the database and its migrations');
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
};
