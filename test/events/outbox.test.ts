import test from 'ava';
import { type TableSubscription, setTableSubscriptions } from '#domain/events/subscriptions.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, sqlStateOf, tenantLogin } from '#test/support/tenant.ts';
import { asOwner, projectWith, withServers } from '../database/limits-scene.ts';

const platform = usePlatform(test);

let shared: TestProject;

/** Remaining events stay: nothing marks the project for the worker. */
const subscribe = async (project: TestProject, subscriptions: readonly TableSubscription[]): Promise<void> => {
  const { db } = platform();
  await withServers(platform(), (servers) => setTableSubscriptions({ db, servers }, project.id, subscriptions));
  await db.query('delete from event_sources where project_id = $1', [project.id]);
};

interface ReportedEvent {
  readonly op: string;
  readonly table: string;
  readonly row: string;
  readonly old: string | null;
}

const reportedOf = (project: TestProject): Promise<ReportedEvent[]> =>
  asAdmin(project.dbName, async (admin) => {
    const { rows } = await admin.query<ReportedEvent>(
      'select op, table_name as "table", row, old from plinth.outbox order by id',
    );
    return rows;
  });

/** Runs statements in a new project with these subscriptions, and answers what they left. */
const leftBy = async (
  statements: readonly string[],
  subscriptions: readonly TableSubscription[] = [{ table: null, op: null }],
): Promise<string[]> => {
  const project = await projectWith(platform(), { rows: null });
  await subscribe(project, subscriptions);
  await asOwner(platform(), project, async (owner) => {
    for (const sql of statements) await owner.query(sql);
  });
  return (await reportedOf(project)).map(({ table, op, row, old }) =>
    [table, op, row, ...(old ? [old] : [])].join(' '),
  );
};

test.before('a project', async () => {
  shared = await projectWith(platform());
});

test('every changed row leaves its event, with exact values, and before an update the old row', async (t) => {
  const left = await leftBy([
    'create table t (id int primary key, big bigint, n numeric, s text)',
    `insert into t values (1, 9007199254740995, 0.10, E'"quoted"\\nä'), (2, null, 'NaN', '')`,
    'update t set big = big + 1 where id = 1',
    'delete from t where id = 2',
    'update t set s = s where id = 99',
  ]);
  const first = `{"id":1,"big":9007199254740995,"n":0.10,"s":"\\"quoted\\"\\nä"}`;
  t.deepEqual(left, [
    `t INSERT ${first}`,
    't INSERT {"id":2,"big":null,"n":"NaN","s":""}',
    `t UPDATE ${first.replace('995', '996')} ${first}`,
    't DELETE {"id":2,"big":null,"n":"NaN","s":""}',
  ]);
});

test('the columns of a table may be called as anything is called that tells of it', async (t) => {
  const names = 'name told_as told added top json row old n o r k of e size op'.split(' ');
  const columns = names.map((name) => `"${name}"`);
  const left = await leftBy([
    `create table t (${columns.map((column) => `${column} int`).join(', ')})`,
    `insert into t values (${names.map((_name, i) => i).join(', ')})`,
    `update t set ${columns.map((column) => `${column} = ${column} + 1`).join(', ')}`,
    'delete from t',
  ]);
  const row = (plus: number): string => `{${columns.map((column, i) => `${column}:${i + plus}`).join(',')}}`;
  t.deepEqual(left, [`t INSERT ${row(0)}`, `t UPDATE ${row(1)} ${row(0)}`, `t DELETE ${row(1)}`]);
});

test('a thousand rows leave a thousand events, and rolled-back ones none', async (t) => {
  const left = await leftBy([
    'create table t (x int)',
    'insert into t select generate_series(1, 1000)',
    'begin; delete from t; rollback',
  ]);
  t.is(left.length, 1000);
  t.is(new Set(left).size, 1000);
});

test('only what somebody subscribes to is kept', async (t) => {
  const left = await leftBy(
    [
      'create table a (x int); create table b (x int); create table c (x int)',
      ...['a', 'b', 'c'].flatMap((name) => [
        `insert into ${name} values (1)`,
        `update ${name} set x = 2`,
        `delete from ${name}`,
      ]),
    ],
    [
      { table: 'a', op: null },
      { table: 'b', op: 'UPDATE' },
      { table: null, op: 'DELETE' },
    ],
  );
  t.deepEqual(
    left.map((line) => line.slice(0, 8)),
    ['a INSERT', 'a UPDATE', 'a DELETE', 'b UPDATE', 'b DELETE', 'c DELETE'],
  );
});

test('upserts, MERGE, CTEs, functions and cascades leave events of what they did', async (t) => {
  const left = await leftBy([
    'create table t (x int primary key, y int); create table child (x int references t on delete cascade)',
    'insert into t values (1, 1); insert into child values (1)',
    'insert into t values (1, 5), (2, 2) on conflict (x) do update set y = excluded.y',
    'insert into t values (1, 7) on conflict do nothing',
    'merge into t using (values (2)) v (x) on t.x = v.x when matched then update set y = 9',
    'with gone as (delete from t where x = 1 returning x) insert into t select x + 10, 0 from gone',
    'truncate child',
  ]);
  t.deepEqual(left.toSorted(), [
    'child DELETE {"x":1}',
    'child INSERT {"x":1}',
    'child TRUNCATE null',
    't DELETE {"x":1,"y":5}',
    't INSERT {"x":1,"y":1}',
    't INSERT {"x":11,"y":0}',
    't INSERT {"x":2,"y":2}',
    't UPDATE {"x":1,"y":5} {"x":1,"y":1}',
    't UPDATE {"x":2,"y":9} {"x":2,"y":2}',
  ]);
});

test('tables are heard however they came to be, under the names that they have now', async (t) => {
  const left = await leftBy([
    'create table made as select 1 as x',
    'insert into made values (2)',
    'create table old_name (x int)',
    'alter table old_name rename to new_name',
    'alter table new_name add column n int default 3',
    'insert into new_name values (4)',
    'create schema elsewhere create table far (x int)',
    'insert into elsewhere.far values (1)',
    'alter table elsewhere.far set schema public',
    'insert into far values (5)',
  ]);
  t.deepEqual(left, ['made INSERT {"x":2}', 'new_name INSERT {"x":4,"n":3}', 'far INSERT {"x":5}']);
});

test('rows of partitions are told of as rows of their table', async (t) => {
  const left = await leftBy(
    [
      'create table p (x int) partition by range (x)',
      'create table p1 partition of p for values from (0) to (10)',
      'create table p2 partition of p for values from (10) to (20)',
      'insert into p values (1)',
      'insert into p2 values (11)',
      'update p set x = 12 where x = 1',
      'delete from p2 where x = 11',
    ],
    [{ table: 'p', op: null }],
  );
  t.deepEqual(left, ['p INSERT {"x":1}', 'p INSERT {"x":11}', 'p UPDATE {"x":12} {"x":1}', 'p DELETE {"x":11}']);
});

test('awkward names of tables and columns are no matter', async (t) => {
  const left = await leftBy(
    [
      `create table "it's ""odd"", {x}" ("new_rows" int, "n" int, "r" int, "o" int)`,
      `insert into "it's ""odd"", {x}" values (1, 2, 3, 4)`,
      `update "it's ""odd"", {x}" set n = 5`,
      'create table "NULL" ()',
      'insert into "NULL" default values',
    ],
    [
      { table: `it's "odd", {x}`, op: null },
      { table: 'NULL', op: 'INSERT' },
    ],
  );
  t.deepEqual(left, [
    `it's "odd", {x} INSERT {"new_rows":1,"n":2,"r":3,"o":4}`,
    `it's "odd", {x} UPDATE {"new_rows":1,"n":5,"r":3,"o":4} {"new_rows":1,"n":2,"r":3,"o":4}`,
    'NULL INSERT {}',
  ]);
});

test('end users whose rows policies decide about leave events, and get what they asked to have returned', async (t) => {
  const project = await projectWith(platform());
  await subscribe(project, [{ table: 'notes', op: null }]);
  await asOwner(platform(), project, async (owner) => {
    await owner.query('create table notes (id int, mine boolean)');
    await owner.query('alter table notes enable row level security');
    await owner.query('create policy own on notes using (mine) with check (mine)');
    await owner.query('grant all on notes to anon');
  });
  await asTenant(await tenantLogin(platform(), project.id, 'api'), async (client) => {
    await client.query('set role anon');
    const { rows, rowCount } = await client.query('insert into notes values (1, true), (2, true) returning id');
    t.deepEqual([rows, rowCount], [[{ id: 1 }, { id: 2 }], 2]);
    t.is(await sqlStateOf(client.query('insert into notes values (3, false)')), '42501');
    t.is(await sqlStateOf(client.query('select * from plinth.outbox')), '42501');
  });
  t.deepEqual(
    (await reportedOf(project)).map(({ row }) => row),
    ['{"id":1,"mine":true}', '{"id":2,"mine":true}'],
  );
});

test('code of the project’s that runs while a row becomes JSON runs without the platform’s rights', async (t) => {
  const project = await projectWith(platform());
  await subscribe(project, [{ table: null, op: null }]);
  await asOwner(platform(), project, async (owner) => {
    await owner.query(`create type mood as enum ('fine')`);
    await owner.query(`create function told(mood) returns json language plpgsql as $$ begin
      return json_build_object('user', current_user, 'super', current_setting('is_superuser')); end $$`);
    // Made before that was refused.
    await asAdmin(project.dbName, (admin) =>
      admin.query('create cast (public.mood as json) with function public.told(public.mood)'),
    );
    await owner.query('create table t (m mood)');
    await owner.query(`insert into t values ('fine')`);
    for (const code of [
      'update plinth.limits set max_rows = null',
      'insert into plinth.row_deltas values (1, -50)',
      `perform setval('plinth.rows_1', 0)`,
    ]) {
      await owner.query(`create or replace function told(mood) returns json language plpgsql as $$ begin
        ${code}; return '1'; end $$`);
      t.is(await sqlStateOf(owner.query(`insert into t values ('fine')`)), '42501', code);
    }
  });
  t.deepEqual(
    (await reportedOf(project)).map(({ row }) => JSON.parse(row)),
    [{ m: { user: 'plinth_events', super: 'off' } }],
  );
});

test('a full outbox refuses writes to subscribed tables, says so, and takes them again once it is drained', async (t) => {
  const project = await projectWith(platform());
  await subscribe(project, [{ table: 't', op: 'INSERT' }]);
  await asOwner(platform(), project, (owner) => owner.query('create table t (x int); create table other (x int)'));
  await asAdmin(project.dbName, (admin) => admin.query('update plinth.outbox_limits set max_rows = 10'));
  await asOwner(platform(), project, async (owner) => {
    await owner.query('insert into t select generate_series(1, 10)');
    const error = await t.throwsAsync(owner.query('insert into t values (11)'));
    t.like(error, { code: 'PLE01' });
    t.regex(error?.message ?? '', /^event_backlog_full: 11 events/);
    await owner.query('insert into other values (1)');
    await owner.query('update t set x = 1');
    await asAdmin(project.dbName, (admin) => admin.query('delete from plinth.outbox'));
    await owner.query('insert into t values (12)');
  });
  t.is((await reportedOf(project)).length, 1);
});

test('a full outbox refuses each write, however many were let in without a look before', async (t) => {
  const project = await projectWith(platform(), { rows: null });
  await subscribe(project, [{ table: 't', op: null }]);
  await asOwner(platform(), project, (owner) => owner.query('create table t (x int)'));
  await asAdmin(project.dbName, (admin) => admin.query('update plinth.outbox_limits set max_rows = 300'));
  await asOwner(platform(), project, async (owner) => {
    await owner.query(`do $$ begin for i in 1..300 loop insert into t values (i); end loop; end $$`);
    for (const sql of ['insert into t values (1)', 'update t set x = 0 where x = 5', 'delete from t where x = 5'])
      for (let again = 0; again < 3; again += 1) t.is(await sqlStateOf(owner.query(sql)), 'PLE01', sql);
  });
  t.is((await reportedOf(project)).length, 300);
});

test('subscriptions are replaced as a whole, and setting the same again changes nothing', async (t) => {
  const source = () =>
    asAdmin(shared.dbName, async (admin) => {
      const { rows } = await admin.query(
        `select p.xmin::text as version, pg_get_function_sqlbody(p.oid) as body from pg_proc p where pronamespace = 'plinth'::regnamespace and proname = 'is_subscribed'`,
      );
      return rows[0] as { version: string; body: string };
    });
  await subscribe(shared, [
    { table: 'a', op: 'INSERT' },
    { table: 'a', op: 'INSERT' },
  ]);
  const first = await source();
  await subscribe(shared, [{ table: 'a', op: 'INSERT' }]);
  t.deepEqual(await source(), first);
  await Promise.all([subscribe(shared, [{ table: 'b', op: null }]), subscribe(shared, [{ table: 'b', op: null }])]);
  t.regex((await source()).body, /\{b\}/);
  t.notRegex((await source()).body, /INSERT a/);
  await subscribe(shared, []);
  await t.throwsAsync(subscribe({ ...shared, id: '00000000-0000-7000-8000-00000000dead' }, []), {
    message: /No such project/,
  });
});
