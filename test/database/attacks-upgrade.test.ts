import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type ProjectDatabase, denied, makeDatabase } from './guard-scene.ts';
import { makeOld, upgradeAll } from './old-database.ts';

const platform = usePlatform(test);

/** The last version in which code of a project's could become the role that wrote the outbox. */
const lastOpenVersion = 15;

const body = (code: string): string =>
  `create or replace function told(mood) returns json language plpgsql as $code$ begin ${code}; return '1'; end $code$`;

/** A database whose project runs code as the role that owns its triggers. */
const openDatabase = async () => {
  const database = await makeDatabase(platform());
  await makeOld(database, lastOpenVersion);
  await asAdmin(database.name, (admin) =>
    admin.query('update plinth.limits set max_rows = 10000; insert into plinth.subscriptions values (null, null)'),
  );
  await database.query(
    'owner',
    `create type mood as enum ('fine')`,
    body('null'),
    'create cast (mood as json) with function told(mood)',
    'create table trap (m mood)',
    'create schema own',
    'grant all on schema own to public',
  );
  return {
    database,
    become: (code: string) => database.query('owner', body(code), `insert into trap values ('fine')`),
  };
};

const rowsOf = <T>({ name }: ProjectDatabase, sql: string): Promise<T[]> =>
  asAdmin(name, async (admin) => (await admin.query(sql)).rows as T[]);

test.serial('what a project switched off works again after the upgrade', async (t) => {
  const { database, become } = await openDatabase();
  await database.query('owner', 'create table own.free (x int)', 'grant all on own.free to public');
  await become(`
    execute format('create or replace trigger plinth_insert after insert on own.free referencing new table as new_rows
      for each statement when (false) execute function %s()',
      (select tgfoid::regproc from pg_trigger where tgrelid = 'own.free'::regclass and tgname = 'plinth_insert'));
    alter function plinth.tell_delete() set search_path = own, pg_catalog;
    create function own.door() returns text language sql security definer as 'select current_user::text';
    grant execute on function own.door() to public`);
  await database.query(
    'owner',
    'alter table own.free set schema public',
    'insert into free select generate_series(1, 10500)',
  );
  t.deepEqual(await database.query('owner', 'select own.door()'), [{ door: 'plinth_events' }]);
  t.deepEqual(await rowsOf(database, `select from plinth.outbox where table_name = 'free'`), [], 'the attack works');

  t.is((await upgradeAll(platform())).done, 1);
  t.is(await database.stateOf('owner', 'insert into free values (1)'), 'PLL01');
  await database.query('owner', 'delete from free', 'insert into free values (2)', 'delete from free');
  t.deepEqual(
    await rowsOf(database, `select op, row from plinth.outbox where table_name = 'free' order by id desc limit 2`),
    [
      { op: 'DELETE', row: '{"x":2}' },
      { op: 'INSERT', row: '{"x":2}' },
    ],
  );
  t.deepEqual(await database.query('owner', 'select own.door()'), [{ door: `${database.ref}_owner` }]);
});

test.serial('a cast to JSON that a project made before has no rights any more', async (t) => {
  const { database, become } = await openDatabase();
  const forge = `insert into plinth.outbox (table_name, op, row) values ('trap', 'INSERT', '{"forged":true}')`;
  await become(forge);
  t.is((await rowsOf(database, `select from plinth.outbox where row ~ 'forged'`)).length, 1, 'the attack works');
  t.is((await upgradeAll(platform())).done, 1);
  t.is(await database.stateOf('owner', `insert into trap values ('fine')`), denied);
  await database.query('owner', body('null'), `insert into trap values ('fine')`);
  t.deepEqual(await rowsOf(database, 'select row from plinth.outbox order by id desc limit 1'), [{ row: '{"m":1}' }]);
});

test.serial('nothing is left that belongs to the role that had too many rights, and no right of it', async (t) => {
  const { database, become } = await openDatabase();
  await become('create table own.kept (x int); alter function plinth.tell_update() security invoker');
  t.is((await upgradeAll(platform())).done, 1);
  t.deepEqual(
    await rowsOf(
      database,
      `select d.classid::regclass::text as class, d.deptype::text as kind from pg_shdepend d
       where d.dbid = (select oid from pg_database where datname = current_database())
         and d.refobjid = 'plinth_events'::regrole`,
    ),
    [{ class: 'pg_proc', kind: 'o' }],
    'the function that makes JSON',
  );
  t.deepEqual(await database.query('owner', `select tableowner from pg_tables where tablename = 'kept'`), [
    { tableowner: `${database.ref}_owner` },
  ]);
  await database.query('owner', body('null'), 'alter table trap add n int', 'insert into trap values (null, 1)');
  await database.query('owner', 'update trap set n = 2');
  t.deepEqual(await rowsOf(database, `select old from plinth.outbox where op = 'UPDATE' and old ~ 'null,'`), [
    { old: '{"m":null,"n":1}' },
  ]);
});
