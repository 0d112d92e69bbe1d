import test from 'ava';
import { createLimitsSweep, measureSize } from '#domain/database/usage.ts';
import { planLimits } from '#domain/database-servers/limits.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { sqlStateOf } from '#test/support/tenant.ts';
import { asOwner, projectWith, withServers } from './limits-scene.ts';

const platform = usePlatform(test);

const refused = 'PLL01';

const limitsOf = (project: TestProject) =>
  asAdmin(project.dbName, async (admin) => {
    const { rows } = await admin.query(
      'select max_tables::int as tables, max_rows::int as rows, max_bytes::text as bytes, size_exceeded from plinth.limits',
    );
    return rows[0] as { tables: number | null; rows: number | null; bytes: string; size_exceeded: boolean };
  });

const sweep = async (): Promise<string> => {
  const { log, text } = memoryLog();
  await withServers(platform(), (servers) => createLimitsSweep({ db: platform().db, servers, log })());
  return text();
};

test.serial('a project has the limits of its plan, from the first moment and after each change of it', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  t.like(await limitsOf(project), { tables: 10, rows: 10_000, bytes: String(planLimits.free.databaseBytes) });
  const path = `/projects/${project.id}`;
  await client.call('PATCH', path, { token: user.token, body: { plan: 'enterprise' } });
  t.like(await limitsOf(project), { tables: null, rows: null, bytes: String(planLimits.enterprise.databaseBytes) });
  await client.call('PATCH', path, { token: user.token, body: { plan: 'pro' } });
  t.like(await limitsOf(project), { tables: 100, rows: 1_000_000, bytes: String(planLimits.pro.databaseBytes) });
});

test.serial('a limit that was not written is written by the next sweep', async (t) => {
  const project = await projectWith(platform(), { tables: 1, rows: null });
  t.is(await sweep(), '');
  t.like(await limitsOf(project), { tables: 10, rows: 10_000 });
});

test.serial('usage tells of tables, of the rows of the largest, of bytes, and of their limits', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const usage = async () => (await client.call('GET', `/projects/${project.id}/usage`, { token: user.token })).body;
  const empty = await usage();
  t.like(empty, { tables: { used: 0, limit: 10 }, rows: { used: 0, limit: 10_000 } });
  t.is(empty.database_bytes.limit, 500 * 1024 * 1024);
  await asOwner(platform(), project, async (owner) => {
    await owner.query('create table a as select generate_series(1, 30) x; create schema s; create table s.b (x int)');
    await owner.query('insert into s.b values (1), (2); delete from a where x > 20');
    await owner.query('create temp table not_counted as select generate_series(1, 99)');
  });
  const used = await usage();
  t.like(used, { tables: { used: 2 }, rows: { used: 20 } });
  t.true(used.database_bytes.used > empty.database_bytes.used);
  await client.call('PATCH', `/projects/${project.id}`, { token: user.token, body: { plan: 'enterprise' } });
  t.like(await usage(), { tables: { used: 2, limit: null }, rows: { used: 20, limit: null } });
});

test('tables of all schemas count, by whatever command they come', async (t) => {
  const project = await projectWith(platform(), { tables: 3 });
  await asOwner(platform(), project, async (owner) => {
    await owner.query('create schema collections create table one (x int); create table two (x int)');
    await owner.query('create table parts (x int) partition by range (x)');
    const more = [
      'create table three (x int)',
      'create table three as select 1 as x',
      'select 1 as x into three',
      'create schema more create table three (x int)',
      'create unlogged table three (x int)',
      'create table three (like two)',
      'do $$ begin create table three (x int); end $$',
    ];
    for (const sql of more) {
      const error = await t.throwsAsync(owner.query(sql), undefined, sql);
      t.like(error, { code: refused, detail: 'limit=tables value=3' }, sql);
    }
    const free = [
      'create temp table three (x int)',
      'create table part partition of parts for values from (1) to (9)',
      'create view seen as select * from two',
      'alter table two add column y int',
      'alter table two rename to second',
      'create index on second (x)',
    ];
    for (const sql of free) t.is(await sqlStateOf(owner.query(sql)), null, sql);
    t.is(await sqlStateOf(owner.query('alter table parts detach partition part')), refused, 'it would be a table');
    t.is(await sqlStateOf(owner.query('create table three (x int)')), refused);
    await owner.query('drop view seen; drop table part');
    await owner.query('drop table second');
    t.is(await sqlStateOf(owner.query('create table public.three (x int)')), null);
  });
});

test('over its limit of tables a project can still change and drop them', async (t) => {
  const project = await projectWith(platform(), { tables: 3 });
  await asOwner(platform(), project, (owner) => owner.query('create table a (x int); create table b (x int)'));
  await asAdmin(project.dbName, (admin) => admin.query('update plinth.limits set max_tables = 1'));
  await asOwner(platform(), project, async (owner) => {
    for (const sql of ['alter table a add y int', 'insert into a values (1)', 'create index on a (x)', 'drop table b'])
      t.is(await sqlStateOf(owner.query(sql)), null, sql);
    t.is(await sqlStateOf(owner.query('create table b (x int)')), refused);
  });
});

const measureAgainst = (project: TestProject, max: number): Promise<void> =>
  asAdmin(project.dbName, async (admin) => {
    await admin.query('update plinth.limits set max_bytes = $1', [max]);
    await measureSize(admin);
  });

test.serial('over its size a project writes no more, but deletes; what is free again is free', async (t) => {
  const project = await projectWith(platform());
  await asOwner(platform(), project, async (owner) => {
    await owner.query(`create table t (x int primary key, y text)`);
    await owner.query(`insert into t select i, repeat(md5(i::text), 500) from generate_series(1, 50) i`);
    await measureAgainst(project, 1000);
    const writes = [
      `insert into t values (100, 'x')`,
      `update t set y = ''`,
      `insert into t values (1, 'x') on conflict (x) do update set y = 'z'`,
      `create table copied as select * from t`,
    ];
    for (const sql of writes) t.like(await t.throwsAsync(owner.query(sql)), { code: refused }, sql);
    for (const sql of [
      'select * from t',
      'delete from t where x = 1',
      'create table e ()',
      'truncate t',
      'drop table e',
    ])
      t.is(await sqlStateOf(owner.query(sql)), null, sql);
    await measureAgainst(project, 1e9);
    for (const sql of writes.slice(0, 3)) t.is(await sqlStateOf(owner.query(sql)), null, sql);
  });
});

test('the owner can neither see nor change what limits the project', async (t) => {
  const project = await projectWith(platform());
  await asOwner(platform(), project, async (owner) => {
    await owner.query('create table t (x int)');
    const attempts = [
      'update plinth.limits set max_rows = null',
      'delete from plinth.row_deltas',
      `select setval('plinth.rows_1', 0)`,
      `select nextval('plinth.rows_1')`,
      'create or replace function plinth.max_rows() returns bigint language sql as $$ select 1::bigint $$',
      'alter table t disable trigger plinth_insert',
      'drop trigger plinth_insert on t',
      'alter table t disable trigger user',
      'set session_replication_role = replica',
      'select plinth.attach_tables()',
      'select plinth.try_check(1, 1)',
    ];
    for (const sql of attempts) t.is(await sqlStateOf(owner.query(sql)), '42501', sql);
    t.is(await sqlStateOf(owner.query('insert into t select generate_series(1, 101)')), refused);
  });
});
