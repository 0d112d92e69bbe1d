import { randomBytes } from 'node:crypto';
import test from 'ava';
import type { Client } from 'pg';
import { type DatabaseServers, createDatabaseServers } from '#domain/database-servers/database-servers.ts';
import { makeTemplate } from '#domain/database-servers/template.ts';
import { openPlatformSealer } from '#lib/platform-sealer.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false });

const server = '00000000-0000-7000-8000-000000000001';

const openServers = async (): Promise<DatabaseServers> => {
  const { db, config } = platform();
  const sealer = await openPlatformSealer(db, openKeyRing(config.PLINTH_SECRET_KEYS));
  return createDatabaseServers({ db, sealer, controlUrl: config.DATABASE_URL, log: memoryLog().log });
};

/** A schema that no server has a template of. */
const newMigrations = () => [
  {
    version: 1,
    sql: `create schema plinth; create table plinth.migrations (version integer primary key);
          create table plinth.made_${randomBytes(6).toString('hex')} (x int)`,
  },
];

/** The same servers; every statement on a connection of their own is noted. */
const noting = (real: DatabaseServers, note: (sql: string) => void): DatabaseServers => ({
  ...real,
  connectTo: async (id, database) => {
    const client = await real.connectTo(id, database);
    return new Proxy(client, {
      get: (target: Client, property) => {
        const value: unknown = Reflect.get(target, property);
        if (property !== 'query') return typeof value === 'function' ? value.bind(target) : value;
        return (sql: string, values?: unknown[]) => {
          note(sql);
          return target.query(sql, values);
        };
      },
    });
  },
});

const databasesLike = (pattern: string) =>
  asAdmin('postgres', async (admin) => {
    const { rows } = await admin.query('select datname, datallowconn from pg_database where datname like $1', [
      pattern,
    ]);
    return rows as { datname: string; datallowconn: boolean }[];
  });

const drop = (name: string) => asAdmin('postgres', (admin) => admin.query(`drop database "${name}"`));

test('10 processes that start on a server without a template make one, once', async (t) => {
  const real = await openServers();
  const migrations = newMigrations();
  const statements: string[] = [];
  const names = await Promise.all(
    Array.from({ length: 10 }, () =>
      makeTemplate(
        noting(real, (sql) => statements.push(sql)),
        server,
        migrations,
      ),
    ),
  );
  const [name = ''] = names;
  t.is(new Set(names).size, 1);
  t.is(statements.filter((sql) => sql.startsWith('create database')).length, 1);
  t.deepEqual(await databasesLike(`${name}%`), [{ datname: name, datallowconn: false }]);
  await drop(name);
  await real.close();
});

test('a template whose making broke off at any statement is made whole by the next process', async (t) => {
  const real = await openServers();
  const migrations = newMigrations();
  let statements = 0;
  await drop(
    await makeTemplate(
      noting(real, () => (statements += 1)),
      server,
      migrations,
    ),
  );
  for (let nth = 1; nth <= statements; nth += 1) {
    let seen = 0;
    const failing = noting(real, () => {
      seen += 1;
      if (seen === nth) throw new Error('crash');
    });
    await t.throwsAsync(makeTemplate(failing, server, migrations), { message: 'crash' });
    const name = await makeTemplate(real, server, migrations);
    t.deepEqual(await databasesLike(`${name}%`), [{ datname: name, datallowconn: false }], `statement ${nth}`);
    await drop(name);
  }
  await real.close();
});

test('a template of a newer schema has another name', async (t) => {
  const real = await openServers();
  const names = [await makeTemplate(real, server, newMigrations()), await makeTemplate(real, server, newMigrations())];
  t.is(new Set(names).size, 2);
  for (const name of names) await drop(name);
  await real.close();
});

test('a template that an operator dropped is made again', async (t) => {
  // The platform of this test has found its template; projects go on without a restart.
  const { client, startWorker } = platform();
  await startWorker();
  const user = await client.signUp();
  await client.createProject(user);
  t.is((await client.call('GET', '/projects', { token: user.token })).body.total, 1);
});
