import test from 'ava';
import { DatabaseError } from 'pg';
import { asAdmin } from '#test/support/databases.ts';
import { type ProjectDatabase, denied, makeDatabase } from './guard-scene.ts';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';

const platform = usePlatform(test, { shared: true });

const newDatabase = (): Promise<ProjectDatabase> => makeDatabase(platform());

let database: ProjectDatabase;

test.before('one project for all', async () => {
  database = await newDatabase();
});

test('nobody replaces the helpers or makes something beside them', async (t) => {
  for (const sql of [
    `create or replace function auth.uid() returns uuid language sql as 'select null::uuid'`,
    'drop function auth.uid()',
    'alter function auth.uid() rename to x',
    'create table auth.t (x int)',
    'drop schema auth cascade',
    'alter schema auth rename to other',
    'create table plinth_api.t (x int)',
    'drop function plinth_api.schema_version()',
    'create schema plinth_mine',
  ])
    t.is(await database.stateOf('owner', sql), denied, sql);
});

test('each change of the schema, and nothing else, changes its version', async (t) => {
  const { query } = await newDatabase();
  const version = async () => {
    const versions = [];
    for (const role of ['owner', 'api', 'service', 'reader'] as const)
      versions.push((await query(role, 'select plinth_api.schema_version() as version'))[0]?.['version']);
    t.is(new Set(versions).size, 1);
    return String(versions[0]);
  };
  const seen = new Set([await version()]);
  for (const sql of [
    'create table v (id int primary key)',
    'alter table v add column x int',
    `comment on column v.x is 'x'`,
    'create index on v (x)',
    'create view w as select * from v',
    `create function f() returns int language sql as 'select 1'`,
    'drop function f()',
    'alter table v enable row level security',
    'alter table v rename to u',
    'drop table u cascade',
    'create type mood as enum ()',
    `do $$ begin for i in 1..600 loop execute 'comment on type mood is ''' || i || ''''; end loop; end $$`,
    'drop type mood',
  ]) {
    await query('owner', sql);
    const now = await version();
    t.false(seen.has(now), sql);
    seen.add(now);
  }
  const before = await version();
  await query('owner', 'begin', 'create table gone (x int)', 'rollback');
  await query('owner', 'create temp table passing (x int)', 'alter table passing add y int', 'drop table passing');
  await query('owner', 'select 1');
  t.is(await version(), before);
  const [kept] = await asAdmin(
    database.name,
    async (db) => (await db.query('select count(*) from plinth.schema_changes')).rows,
  );
  t.true(Number(kept.count) < 600, 'old rows are put away');
});

test('changes of the schema in two transactions do not wait for each other', async (t) => {
  const { query, name, id } = await newDatabase();
  await asAdmin(name, (db) => db.query(`select setval(pg_get_serial_sequence('plinth.schema_changes', 'id'), 498)`));
  const login = await tenantLogin(platform(), id, 'owner');
  await asTenant(login, async (first) => {
    await first.query('begin');
    for (const n of [1, 2, 3]) await first.query(`create table first_${n} (x int)`);
    await query('owner', `set lock_timeout = '2s'`, ...[1, 2, 3].map((n) => `create table second_${n} (x int)`));
    await first.query('commit');
  });
  t.deepEqual(await query('owner', `select count(*)::int as n from pg_tables where tablename ~ '^(first|second)_'`), [
    { n: 6 },
  ]);
});

test('a registered hook runs after the platform’s own steps, whoever changes the schema', async (t) => {
  const { query, name } = await newDatabase();
  await asAdmin(name, (db) =>
    db.query(`
      create table plinth.test_seen (what text, by text);
      create function plinth.test_hook() returns void language sql as $$
        insert into plinth.test_seen select object_identity, current_user from pg_event_trigger_ddl_commands() $$;
      insert into plinth.ddl_hooks (name, position) values ('test_hook', 99)`),
  );
  await query('owner', 'create table hooked (x int)');
  const rows = await asAdmin(name, async (db) => {
    await db.query('create table public.hooked_too (x int)');
    return (await db.query('select what, by = current_user as by_platform from plinth.test_seen')).rows;
  });
  t.deepEqual(rows, [
    { what: 'public.hooked', by_platform: true },
    { what: 'public.hooked_too', by_platform: true },
  ]);
});

test('the platform’s triggers on a table go with the table and in no other way', async (t) => {
  const { query, stateOf, name } = await newDatabase();
  await query(
    'owner',
    'create table watched (x int)',
    `create function own() returns trigger language plpgsql as 'begin return null; end'`,
  );
  await asAdmin(name, (db) =>
    db.query(`
      create function plinth.test_watch() returns trigger language plpgsql as 'begin return null; end';
      create trigger plinth_test after insert on public.watched execute function plinth.test_watch()`),
  );
  for (const sql of [
    'drop trigger plinth_test on watched',
    'alter table watched disable trigger plinth_test',
    'alter table watched disable trigger all',
    'alter table watched disable trigger user',
    'alter table watched enable replica trigger plinth_test',
    'alter trigger plinth_test on watched rename to mine',
    'create or replace trigger plinth_test after insert on watched execute function own()',
    'create or replace trigger plinth_test before delete on watched execute function own()',
    'create trigger plinth_more after insert on watched execute function own()',
    'create trigger more after insert on watched execute function plinth.test_watch()',
    'do $$ begin drop trigger plinth_test on watched; exception when undefined_object then null; end $$',
  ])
    t.is(await stateOf('owner', sql), denied, sql);
  for (const sql of [
    'set session_replication_role = replica',
    'alter event trigger plinth_on_ddl disable',
    'drop event trigger plinth_on_drop',
    'select plinth.apply_grants()',
    'set event_triggers = off',
  ])
    // The other: before version 17 there is no such setting.
    t.true([denied, '42704'].includes(String(await stateOf('owner', sql))), sql);
  t.not(await stateOf('owner', 'select plinth_api.after_ddl()'), null);
  await query('owner', 'create trigger mine after insert on watched execute function own()');
  await query('owner', 'drop trigger mine on watched', 'alter table watched rename to seen', 'drop table seen');
  t.pass();
});

test('extensions that only compute can be installed and used, others cannot', async (t) => {
  const { query, stateOf, stateAs } = await newDatabase();
  const available = await asAdmin(
    'postgres',
    async (db) => (await db.query('select name from pg_available_extensions')).rows,
  );
  const has = (name: string) => available.some((row) => row.name === name);
  if (has('pgcrypto')) {
    await query('owner', 'create extension pgcrypto');
    t.is(await stateOf('owner', `select crypt('a', gen_salt('md5'))`), null);
    t.is(await stateAs('anon', `select digest('a', 'sha256')`), null);
  }
  if (has('tablefunc')) {
    await query('owner', 'create extension tablefunc');
    t.is(await stateOf('owner', 'select normal_rand(1, 0, 1)'), null);
    t.is(await stateAs('anon', `select * from crosstab('select 1, 2, 3') as t (a int, b int)`), denied);
  }
  for (const name of ['dblink', 'postgres_fdw', 'file_fdw', 'plperl', 'plpython3u', 'pg_buffercache', 'lo'].filter(
    has,
  )) {
    const state = await stateOf('owner', `create extension ${name}`);
    // The last: what the extension needs is not on this machine.
    t.true([denied, '58P01', 'XX000'].includes(String(state)), `${name}: ${state}`);
  }
});

test('the refusal of a platform trigger’s dropping says whose it is', async (t) => {
  const { query, name } = await newDatabase();
  await query('owner', 'create table told (x int)');
  await asAdmin(name, (db) =>
    db.query(`
      create function plinth.test_told() returns trigger language plpgsql as 'begin return null; end';
      create trigger plinth_told after insert on public.told execute function plinth.test_told()`),
  );
  const error = await t.throwsAsync(query('owner', 'drop trigger plinth_told on told'), { instanceOf: DatabaseError });
  t.regex(error?.message ?? '', /plinth_told of told is the platform's/);
});
