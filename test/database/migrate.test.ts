import test from 'ava';
import { Client } from 'pg';
import { controlMigrations } from '#domain/control-schema.ts';
import { migrate, schemaIsCurrent, waitForSchema } from '#lib/migrate.ts';
import { createEmptyDatabase } from '#test/support/databases.ts';
import { memoryLog } from '#test/support/platform.ts';

const query = async (url: string, sql: string): Promise<Record<string, unknown>[]> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
};

test('several processes that start at once on an empty database migrate it once', async (t) => {
  const database = await createEmptyDatabase();
  t.false(await schemaIsCurrent(database.url, controlMigrations));
  const waiting = waitForSchema(database.url, controlMigrations, memoryLog().log);
  await Promise.all(Array.from({ length: 5 }, () => migrate(database.url, controlMigrations)));
  await waiting;
  t.true(await schemaIsCurrent(database.url, controlMigrations));
  const names = await query(database.url, 'select name from migrations');
  t.is(new Set(names.map(({ name }) => name)).size, names.length);
  t.deepEqual(await query(database.url, 'select name from database_servers'), [{ name: 'default' }]);
  await database.drop();
});

test('the lock of a process that was killed while migrating holds up nobody', async (t) => {
  const database = await createEmptyDatabase();
  await migrate(database.url, controlMigrations);
  await query(database.url, 'update migrations_lock set is_locked = 1');
  await migrate(database.url, controlMigrations);
  t.true(await schemaIsCurrent(database.url, controlMigrations));
  await database.drop();
});

test('a database that is away has no current schema, which is no error', async (t) => {
  t.false(await schemaIsCurrent('postgres://nobody@127.0.0.1:1/none', controlMigrations));
});
