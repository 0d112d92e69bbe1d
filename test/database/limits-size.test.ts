import test from 'ava';
import { readUsage } from '#domain/database/usage.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type ProjectDatabase, makeDatabase } from './guard-scene.ts';

const platform = usePlatform(test);

const refused = 'PLL01';

const setExceeded = ({ name }: ProjectDatabase, exceeded: boolean) =>
  asAdmin(name, (admin) => admin.query('update plinth.limits set size_exceeded = $1', [exceeded]));

test('a database that is too large does not grow by what no trigger of a table sees', async (t) => {
  const database = await makeDatabase(platform());
  await database.query(
    'owner',
    'create table t as select x from generate_series(1, 10) x',
    'create table u as select * from t',
    'create materialized view m as select * from u',
    `select lo_from_bytea(4711, 'x')`,
  );
  const growing = [
    'create materialized view more as select * from t',
    'refresh materialized view m',
    'create index on t (x)',
    'create unique index concurrently t_x on t (x)',
    'create table more as select * from t',
    'create table more as select * from t with no data',
    'select * into more from t',
    'create temp table more (x int)',
    'create temp table more as select * from t',
    'alter table t add column y text default random()::text',
    'alter table t alter x type text',
    'alter table t set unlogged',
    'select lo_create(0)',
    'select lo_creat(-1)',
    `select lo_from_bytea(0, 'more')`,
    `select lo_put(4711, 0, 'more')`,
    `begin; select lowrite(lo_open(4711, 131072), 'more')`,
  ];
  await setExceeded(database, true);
  for (const sql of growing) t.is(await database.stateOf('owner', sql), refused, sql);
  const free = [
    'create table empty (x int)',
    'create view v as select * from t',
    'alter table t add column z text',
    'select lo_get(4711)',
    'drop materialized view m',
    'delete from t',
    'truncate t',
    'select lo_unlink(4711)',
  ];
  for (const sql of free) t.is(await database.stateOf('owner', sql), null, sql);
  await setExceeded(database, false);
  for (const sql of ['create table more as select * from t', 'create index on t (x)', 'create temp table tmp (x int)'])
    t.is(await database.stateOf('owner', sql), null, sql);
});

test('large objects work as ever below the limit', async (t) => {
  const { query, stateOf } = await makeDatabase(platform());
  t.deepEqual(await query('service', `select lo_from_bytea(4711, 'abc')::int as id`), [{ id: 4711 }]);
  await query('service', `select lo_put(4711, 3, 'def')`);
  await query('service', `begin; select lowrite(lo_open(4711, 131072), 'A'); commit`);
  t.deepEqual(await query('service', `select convert_from(lo_get(4711), 'UTF8') as held`), [{ held: 'Abcdef' }]);
  t.is(await stateOf('owner', `select lo_put(4711, 0, 'x')`), '42501', 'whose it is counts as before');
  t.is(await stateOf('reader', 'select lo_create(0)'), '42501');
  t.is(await stateOf('api', `set role anon; select lo_from_bytea(0, 'x')`), '42501');
  t.is(await stateOf('owner', `select plinth.lo_put(1, 0, 'x')`), '42501');
});

test('records of migrations are of bounded size, and count', async (t) => {
  const database = await makeDatabase(platform());
  const record = (name: string, checksum: string) =>
    database.stateOf('owner', `select plinth_migrations.record(${name}, ${checksum}, 1)`);
  t.is(await record(`'a'`, `repeat('0', 65)`), '23514');
  t.is(await record(`'a'`, `repeat('0', 100000000)`), '23514');
  t.is(await record(`repeat('a', 256)`, `repeat('0', 64)`), '23514');
  t.is(await record(`repeat('ä', 128)`, `repeat('0', 64)`), '23514');
  t.is(await record(`repeat('ä', 127)`, `repeat('0', 64)`), null);
  const measure = () => asAdmin(database.name, async (admin) => (await readUsage(admin)).bytes);
  const before = await measure();
  await database.query(
    'owner',
    `select plinth_migrations.record('step ' || n, repeat('0', 64), 1) from generate_series(1, 5000) n`,
  );
  t.true((await measure()) - before > 500_000);
});

test('a table with several parents counts for the first, when its rows are counted anew, too', async (t) => {
  const database = await makeDatabase(platform());
  await database.query(
    'owner',
    'create table a (x int)',
    'create table b (x int)',
    'create table child () inherits (a, b)',
    'insert into child select generate_series(1, 10)',
    'insert into b values (1)',
    'truncate only a',
    'truncate only b',
  );
  const { rows } = await asAdmin(database.name, (admin) =>
    admin.query(
      `select c.root::text as root, coalesce(sum(d.delta), 0)::int as held from plinth.counters c
       left join plinth.row_deltas d on d.counter = c.id group by 1 order by 1`,
    ),
  );
  t.deepEqual(
    rows.map(({ root, held }) => [String(root).replace('public.', ''), held]),
    [
      ['a', 10],
      ['b', 0],
    ],
  );
});
