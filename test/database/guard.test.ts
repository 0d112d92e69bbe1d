import test from 'ava';
import { type ProjectDatabase, denied, makeDatabase } from './guard-scene.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

const newDatabase = (): Promise<ProjectDatabase> => makeDatabase(platform());

let database: ProjectDatabase;

test.before('one project for all', async () => {
  database = await newDatabase();
});

const endUsers = ['anon', 'authenticated'] as const;
const claims = (value: string) => `select set_config('request.jwt.claims', '${value}', true)`;

test('a table is closed to end users until its row-level security is on, and again when it is off', async (t) => {
  const { query, stateAs } = database;
  await query(
    'owner',
    'create table opening (id serial primary key, x int)',
    'create policy everyone on opening using (true) with check (true)',
  );
  for (const role of endUsers) t.is(await stateAs(role, 'select * from opening'), denied);
  await query('owner', 'alter table opening enable row level security');
  for (const role of endUsers) {
    t.is(await stateAs(role, 'insert into opening (x) values (1)'), null, 'with its sequence');
    t.is(await stateAs(role, 'update opening set x = 2'), null);
    t.is(await stateAs(role, 'select * from opening'), null);
    t.is(await stateAs(role, 'delete from opening'), null);
    t.is(await stateAs(role, 'truncate opening'), denied);
  }
  await query('owner', 'alter table opening add column later serial');
  t.is(await stateAs('anon', 'insert into opening (x) values (1)'), null, 'with the sequence of a later column');
  await query('owner', 'alter table opening disable row level security');
  for (const role of endUsers) {
    t.is(await stateAs(role, 'select * from opening'), denied);
    t.is(await stateAs(role, `select nextval('opening_id_seq')`), denied);
  }
});

test('what the owner took away from end users stays away, whatever changes about the table', async (t) => {
  const { query, stateAs } = database;
  await query(
    'owner',
    'create table narrowed (id int)',
    'alter table narrowed enable row level security',
    'revoke insert, update, delete on narrowed from anon, authenticated',
    'alter table narrowed add column y int',
    'alter table narrowed rename to narrower',
  );
  t.is(await stateAs('anon', 'select * from narrower'), null);
  t.is(await stateAs('anon', 'insert into narrower values (1)'), denied);
});

test('granting to end users or to everybody does not open a table without row-level security', async (t) => {
  const { query, stateAs, stateOf, ref } = await newDatabase();
  await query(
    'owner',
    'create table granted (id int, secret text)',
    'create materialized view granted_m as select 1 as x',
  );
  for (const sql of [
    'grant select on granted to anon',
    'grant all on granted to public',
    'grant select (secret) on granted to authenticated',
    'grant all on all tables in schema public to anon, authenticated',
    'grant select on granted_m to anon',
  ]) {
    await query('owner', sql);
    for (const role of endUsers) {
      t.is(await stateAs(role, 'select secret from granted'), denied, sql);
      t.is(await stateAs(role, 'select * from granted_m'), denied, sql);
    }
  }
  // The right to grant a privilege opens no way round.
  await query('owner', `grant select on granted to "${ref}_service" with grant option`);
  t.is(await stateOf('service', 'grant select on granted to anon'), denied);
});

test('default privileges of the owner’s do not open what is made later', async (t) => {
  const { query, stateAs, stateOf } = await newDatabase();
  await query(
    'owner',
    'alter default privileges grant all on tables to anon, authenticated, public',
    'alter default privileges in schema public grant all on tables to anon',
    'alter default privileges grant execute on functions to public',
    'alter default privileges in schema public grant execute on functions to public',
    'create table late (x int)',
    `create function late_f() returns int language sql as 'select 1'`,
  );
  t.is(await stateAs('anon', 'select * from late'), denied);
  t.is(await stateAs('anon', 'select late_f()'), denied);
  t.is(await stateOf('reader', 'select late_f()'), denied);
  t.is(await stateOf('service', 'select late_f()'), null);
});

test('tables are closed however they are made, and readers and secret keys reach them', async (t) => {
  const { query, stateAs, stateOf } = database;
  await query(
    'owner',
    'create table made_as as select 1 as x',
    'select 1 as x into made_into',
    'create table made_parent (x int) partition by list (x)',
    'create table made_part partition of made_parent default',
    'create schema made create table made_in (x int) create view made_view as select * from made_in',
    'create table made.moved (x int)',
    'alter table made.moved set schema public',
  );
  for (const name of ['made_as', 'made_into', 'made_parent', 'made_part', 'made.made_in', 'made.made_view', 'moved']) {
    for (const role of endUsers) t.is(await stateAs(role, `select * from ${name}`), denied, name);
    t.is(await stateOf('reader', `select * from ${name}`), null, name);
    t.is(await stateOf('reader', `insert into ${name} values (1)`), denied, name);
    t.is(await stateOf('service', `insert into ${name} values (1)`), null, name);
  }
});

test('a view is open when it asks with the rights of who asks, and only then', async (t) => {
  const { query, stateAs } = database;
  await query(
    'owner',
    'create table behind (x int)',
    'alter table behind enable row level security',
    'create view plain as select * from behind',
    'create view invoked with (security_invoker = on) as select * from behind',
  );
  t.is(await stateAs('anon', 'select * from plain'), denied);
  t.is(await stateAs('anon', 'select * from invoked'), null);
  await query('owner', 'alter view plain set (security_invoker)', 'alter view invoked set (security_invoker = false)');
  t.is(await stateAs('anon', 'select * from plain'), null);
  t.is(await stateAs('anon', 'select * from invoked'), denied);
  await query('owner', 'create or replace view plain as select x + 1 as x from behind');
  t.is(await stateAs('anon', 'select * from plain'), denied, 'a replaced view has lost the option');
});

test('a function is for those who are named, and stays so when it is replaced', async (t) => {
  const { query, stateAs, stateOf } = database;
  const make = `create or replace function named() returns int language sql as 'select 1'`;
  await query('owner', make);
  t.is(await stateAs('anon', 'select named()'), denied);
  t.is(await stateOf('service', 'select named()'), null);
  await query('owner', 'grant execute on function named() to anon', make);
  t.is(await stateAs('anon', 'select named()'), null);
  t.is(await stateAs('authenticated', 'select named()'), denied);
});

test('policies know the request by the helpers of schema auth', async (t) => {
  const { query } = database;
  const id = '0198a1b2-0000-7000-8000-00000000000a';
  await query(
    'owner',
    'create table mine (owner uuid default auth.uid(), body text)',
    'alter table mine enable row level security',
    'create policy own on mine using (owner = auth.uid()) with check (owner = auth.uid())',
  );
  const as = (value: string, ...sql: string[]) =>
    query('api', 'begin', 'set local role authenticated', claims(value), ...sql);
  const own = JSON.stringify({ sub: id, role: 'authenticated', email: 'a@example.org' });
  const columns = 'select auth.uid(), auth.role(), auth.email(), auth.jwt()';
  t.deepEqual(await as(own, columns), [
    { uid: id, role: 'authenticated', email: 'a@example.org', jwt: JSON.parse(own) },
  ]);
  await query(
    'api',
    'begin',
    'set local role authenticated',
    claims(own),
    `insert into mine (body) values ('a')`,
    'commit',
  );
  t.deepEqual(await as(own, 'select body from mine'), [{ body: 'a' }]);
  for (const other of ['', '{}', '{"sub":"no uuid"}', '{"sub":null}', `{"sub":"${id.replace('a', 'b')}"}`])
    t.deepEqual(await as(other, 'select body from mine'), [], other);
  const none = { uid: null, role: null, email: null, jwt: null };
  t.deepEqual(await as('', columns), [none]);
  t.deepEqual(await query('owner', columns), [none]);
});
