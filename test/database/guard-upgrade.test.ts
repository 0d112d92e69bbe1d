import test from 'ava';
import { projectMigrations } from '#domain/database-servers/template.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { denied, makeDatabase } from './guard-scene.ts';
import { makeOld, upgradeAll } from './old-database.ts';

const platform = usePlatform(test);

const upgrade = () => upgradeAll(platform());

const versionsIn = (name: string) =>
  asAdmin(name, async (db) => (await db.query('select version from plinth.migrations order by 1')).rows);

test.serial('the database of an earlier version becomes as a new one is, and keeps what it holds', async (t) => {
  const [old, fresh] = [await makeDatabase(platform()), await makeDatabase(platform())];
  await makeOld(old);
  await old.query(
    'owner',
    'create table kept (x int)',
    'insert into kept values (1)',
    'create table guarded (x int)',
    'alter table guarded enable row level security',
    'create schema more create table t (x int)',
    'grant select on kept to anon',
  );
  t.is((await upgrade()).done, 1);
  t.deepEqual(await versionsIn(old.name), await versionsIn(fresh.name));
  t.deepEqual(await old.query('service', 'select x from kept'), [{ x: 1 }]);
  t.is(await old.stateAs('anon', 'select * from kept'), denied, 'what was open without policies is closed');
  t.is(await old.stateAs('anon', 'select * from guarded'), null);
  t.is(await old.stateOf('reader', 'select * from more.t'), null);
  await old.query('owner', 'create table later (x int)', 'grant all on later to anon');
  t.is(await old.stateAs('anon', 'select * from later'), denied);
  t.is(await old.stateOf('owner', 'select pg_advisory_lock(n) from generate_series(1, 100) n'), '53400');
  t.deepEqual(await old.query('owner', 'show temp_file_limit'), [{ temp_file_limit: '1GB' }]);
  t.is(await old.stateOf('owner', 'create type spans as range (subtype = int)', 'select spans(1, 2)'), null);
  t.deepEqual(await old.query('owner', `select from pg_roles where rolname = '${fresh.ref}_owner'`), []);
  t.is((await upgrade()).done, 0, 'once');
});

test.serial('a schema auth of the project’s own is left as it is', async (t) => {
  const old = await makeDatabase(platform());
  await makeOld(old);
  await old.query(
    'owner',
    'create schema auth',
    `create function auth.uid() returns text language sql as $$ select 'own' $$`,
  );
  t.is((await upgrade()).done, 1);
  t.deepEqual(await old.query('owner', 'select auth.uid()'), [{ uid: 'own' }]);
  t.is(await old.stateOf('owner', 'create table later (x int)'), null);
});

test.serial('a database that cannot be upgraded holds up no other and is tried again', async (t) => {
  const [broken, old] = [await makeDatabase(platform()), await makeDatabase(platform())];
  await makeOld(broken);
  await makeOld(old);
  await asAdmin(broken.name, (db) => db.query('create table plinth.ddl_hooks (in_the_way int)'));
  const first = await upgrade();
  t.is(first.done, 1);
  t.regex(first.logged, new RegExp(broken.id));
  t.deepEqual(await versionsIn(broken.name), [{ version: 1 }]);
  await asAdmin(broken.name, (db) => db.query('drop table plinth.ddl_hooks'));
  t.is((await upgrade()).done, 1);
});

test.serial('several workers that upgrade at once do each database once', async (t) => {
  const old = await Promise.all([1, 2, 3].map(() => makeDatabase(platform())));
  for (const database of old) await makeOld(database);
  await Promise.all([upgrade(), upgrade(), upgrade()]);
  for (const { name } of old) {
    const versions = await versionsIn(name);
    t.is(versions.length, (await projectMigrations()).length);
  }
  t.is((await upgrade()).done, 0);
});

test.serial('a database that lost what a dump does not hold gets it again', async (t) => {
  const database = await makeDatabase(platform());
  // As a restore leaves it: another number, the platform's functions, and a catalog as the server makes it.
  await asAdmin('postgres', async (admin) => {
    await admin.query(`alter database "${database.name}" set plinth.version = 'of a dump'`);
  });
  await asAdmin(database.name, (db) =>
    db.query(`
      begin;
      set local allow_system_table_mods = on;
      delete from pg_proc where pronamespace = 'pg_catalog'::regnamespace and oid >= 16384;
      update pg_proc set pronamespace = 'pg_catalog'::regnamespace where pronamespace = 'plinth'::regnamespace and oid < 16384;
      update pg_type set typoutput = 'regroleout'::regproc where oid = 'regrole'::regtype;
      create function plinth.pg_get_userbyid(oid) returns name language internal as 'pg_get_userbyid';
      commit`),
  );
  t.is((await upgrade()).done, 1);
  t.is(await database.stateOf('owner', 'select pg_advisory_lock(n) from generate_series(1, 100) n'), '53400');
  t.is((await upgrade()).done, 0);
});

test.serial('a project that took names of the platform’s keeps what it has, under other names', async (t) => {
  const old = await makeDatabase(platform());
  await makeOld(old);
  await old.query(
    'owner',
    'create schema plinth_api create table kept (x int)',
    'create schema plinth_migrations',
    `create function plinth_migrations.record(text, text, integer) returns void language sql as 'select'`,
    'insert into plinth_api.kept values (1)',
    'create table t (x int) partition by list (x)',
    'create table part partition of t default',
    `create function fires() returns trigger language plpgsql as 'begin return null; end'`,
    'create trigger plinth_insert after insert on t for each row execute function fires()',
    'create constraint trigger plinth_count_delete after delete on part for each row execute function fires()',
    'create trigger plinth_own after insert on t for each statement execute function fires()',
  );
  t.is((await upgrade()).done, 1);
  const names = await old.query(
    'owner',
    `select nspname from pg_namespace where nspname like '%plinth\\_%' order by 1`,
  );
  t.deepEqual(
    names.map(({ nspname }) => String(nspname).replace(/_\d+$/, '_n')),
    ['before_plinth_api_n', 'before_plinth_migrations_n', 'plinth_api', 'plinth_migrations'],
  );
  const [{ nspname } = {}] = names;
  t.deepEqual(await old.query('service', `select x from ${String(nspname)}.kept`), [{ x: 1 }]);
  await old.query(
    'owner',
    'insert into t values (1)',
    'alter table t add column y int',
    'alter table part add check (x > 0)',
  );
  const { rows } = await asAdmin(old.name, (admin) =>
    admin.query('select sum(delta)::int as held from plinth.row_deltas group by counter order by 1'),
  );
  t.deepEqual(rows, [{ held: 1 }, { held: 1 }]);
});

test.serial('an upgrade that would wait for a lock gives up, and makes nobody else wait', async (t) => {
  const old = await makeDatabase(platform());
  await makeOld(old);
  await old.query('owner', 'create table t (x int)', 'insert into t values (1)');
  await asTenant(await tenantLogin(platform(), old.id, 'owner'), async (holder) => {
    await holder.query('begin; lock table t in access share mode; insert into t values (2)');
    const first = await upgrade();
    t.is(first.done, 0);
    t.regex(first.logged, /lock timeout/);
    t.deepEqual(await old.query('owner', 'insert into t values (3) returning x'), [{ x: 3 }]);
    await holder.query('commit');
  });
  t.is((await upgrade()).done, 1);
});
