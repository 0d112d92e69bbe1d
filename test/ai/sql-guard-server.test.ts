import test from 'ava';
import { queryFunctions, storedFunctions } from '#domain/ai/sql-guard/functions.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type DatabaseScene, openScene } from '../database/scene.ts';
import { endlessQueries, hostileChanges, hostilePolicies, hostileQueries } from './sql-guard-hostile.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;

test.before('a project with a canary', async () => {
  scene = await openScene(platform());
  await scene.run('create table canary (id int generated always as identity primary key, note text)');
  await scene.run("insert into canary (note) values ('alive'), ('well')");
  await scene.run(
    'create function intruder() returns int language sql volatile as $$ delete from canary returning 1 $$',
  );
});

const asSuperuser = async <T extends object>(sql: string, values: readonly unknown[] = []): Promise<T[]> =>
  asAdmin(scene.project.dbName, async (client) => (await client.query<T>(sql, [...values])).rows);

/** All that a statement could have left behind. */
const traces = async (): Promise<unknown> =>
  asSuperuser(`
    select (select jsonb_agg(c order by id) from canary c) as rows,
      (select jsonb_agg(array[relname::text, relkind::text, relrowsecurity::text, relpersistence::text] order by oid) from pg_class
        where relnamespace in ('public'::regnamespace, 'plinth'::regnamespace)) as relations,
      (select count(*) from pg_attribute where attrelid = 'canary'::regclass) as columns,
      (select count(*) from pg_proc) as functions, (select count(*) from pg_policy) as policies,
      (select count(*) from pg_trigger) as triggers, (select count(*) from pg_namespace) as schemas,
      (select count(*) from pg_largeobject_metadata) as large_objects,
      (select count(*) from pg_extension) as extensions, (select count(*) from pg_prepared_xacts
        where database = current_database()) as prepared,
      (select last_value from canary_id_seq) as sequence,
      (select jsonb_agg(setconfig) from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
        where d.datname = current_database()) as settings,
      (select count(*) from pg_locks where locktype = 'advisory' and database =
        (select oid from pg_database where datname = current_database())) as locks,
      (select count(*) from pg_roles where rolname = 'intruder') as roles`);

const apply = async (kind: 'schema' | 'rls', sql: string) =>
  platform().client.call('POST', `/projects/${scene.project.id}/ai/${kind}/apply`, {
    token: scene.owner.token,
    body: { sql, approved: true },
  });

/** More text than the field takes, or a character that no field takes, does not come as far as the guard. */
const codes = new Set(['sql_not_allowed', 'validation_failed']);

test.serial('what the guard refuses is refused by the endpoints and leaves nothing behind', async (t) => {
  const before = await traces();
  for (const [kind, hostile] of [
    ['schema', [...hostileChanges, ...hostileQueries, ...endlessQueries]],
    ['rls', [...hostilePolicies, ...hostileQueries, ...endlessQueries]],
  ] as const) {
    for (const [sql] of hostile) {
      const { status, body } = await apply(kind, sql);
      t.is(status, 400, sql.slice(0, 80));
      t.true(codes.has(body.code), `${sql.slice(0, 80)}: ${body.code}`);
    }
  }
  t.deepEqual(await traces(), before);
});

test.serial('were the guard not there, the reader’s session would still change nothing', async (t) => {
  const before = await traces();
  for (const [sql] of hostileQueries) {
    if (!sql.includes('\0')) await scene.query(sql, [], scene.viewer);
  }
  t.deepEqual(await traces(), before);
});

test.serial('a refused statement is told why, each reason with its place', async (t) => {
  const { status, body } = await apply('schema', 'create unlogged table a (b int default lo_create(1))');
  t.is(status, 400);
  t.is(body.code, 'sql_not_allowed');
  t.deepEqual(
    body.details.map(({ rule, at }: { rule: string; at: number }) => [rule, at]),
    [
      ['clause', 23],
      ['function', 40],
    ],
  );
  t.regex(body.hint, /generated-sql\.md/);
});

test.serial('a function or operator of the project is not called in place of the server’s', async (t) => {
  await scene.run(`create function lower(int) returns text language sql as $$ select 'mine' $$`);
  await scene.run('create function plus(text, text) returns int language sql immutable as $$ select 1 $$');
  await scene.run('create operator + (leftarg = text, rightarg = text, function = plus)');
  const shadowed = await apply('schema', 'alter table canary add constraint c check (lower(id) is not null)');
  t.deepEqual([shadowed.status, shadowed.body.code], [400, 'sql_not_allowed']);
  t.regex(shadowed.body.message, /pg_catalog\.lower/);
  const operator = await apply('schema', 'alter table canary add constraint c check (note + note = 1)');
  t.deepEqual([operator.status, operator.body.details[0].rule], [400, 'operator']);
  const exact = await apply('schema', 'alter table canary add constraint c check (pg_catalog.lower(note) <> $$x$$)');
  t.is(exact.status, 200, exact.text);
  await scene.run('alter table canary drop constraint c');
  await scene.run('drop operator + (text, text)');
  await scene.run('drop function lower(int), plus(text, text)');
});

test.serial('a name after a dot is not a way to call a function', async (t) => {
  const sql = 'alter table canary add constraint c check ((note).pg_read_file is null)';
  const { status, body } = await apply('schema', sql);
  t.deepEqual([status, body.code, body.details?.[0].rule], [400, 'sql_not_allowed', 'function']);
});

test.serial('an operator of the project is not called by what stands for it', async (t) => {
  await scene.run('create function same(text, int) returns bool language sql immutable as $$ select true $$');
  for (const name of ['=', '>=', '<=', '<', '>']) {
    await scene.run(`create operator ${name} (leftarg = text, rightarg = int, function = same)`);
  }
  for (const value of [
    `case 'x'::text when 1 then 7 end`,
    `('x'::text between 1 and 2)::int`,
    `('x'::text not between 1 and 2)::int`,
    `nullif('x'::text, 1)::int`,
  ]) {
    const { status, body } = await apply('schema', `alter table canary add column b int default ${value}`);
    t.deepEqual([status, body.details?.[0].rule], [400, 'operator'], value);
  }
  const policy = `create policy p on canary using (note in (select id from canary))`;
  t.is((await apply('rls', policy)).body.details?.[0].rule, 'operator');
  await scene.run('drop function same cascade');
});

test.serial('what is no table is not changed by the words for tables', async (t) => {
  await scene.run('create view seen as select id from canary');
  await scene.run('create sequence counted');
  await scene.run('create index found on canary (note)');
  for (const name of ['seen', 'counted', 'found', 'canary_id_seq']) {
    const { status, body } = await apply('schema', `alter table ${name} rename to other`);
    t.deepEqual([status, body.code, body.details?.[0].rule], [400, 'sql_not_allowed', 'statement'], name);
  }
  const column = await apply('schema', 'alter table public.seen rename column id to other');
  t.is(column.body.code, 'sql_not_allowed');
  for (const made of ['view seen', 'sequence counted', 'index found']) await scene.run(`drop ${made}`);
});

test.serial('what may stay in the database is among what a query may call', (t) => {
  t.deepEqual([...storedFunctions.difference(queryFunctions)], []);
});

test.serial('every function that is allowed is the server’s, and writes nothing', async (t) => {
  const rows = await asSuperuser<{ name: string; kinds: string[]; schemas: string[] }>(
    `select n as name, array_agg(distinct p.provolatile::text) filter (where p.oid is not null) as kinds
     from unnest($1::text[]) n
     left join pg_proc p on p.proname = n and p.pronamespace = 'pg_catalog'::regnamespace group by n order by n`,
    [[...queryFunctions]],
  );
  // Functions of PostgreSQL 18, or words of the parser that become other functions.
  const unknown = rows.filter(({ kinds }) => kinds === null).map(({ name }) => name);
  t.deepEqual(unknown, ['array_reverse', 'array_sort', 'casefold', 'gamma', 'lgamma', 'uuidv4', 'uuidv7']);
  // Chance and the time of day, which the server calls volatile since they differ from row to row.
  const volatile = rows.filter(({ kinds }) => kinds?.includes('v')).map(({ name }) => name);
  t.deepEqual(volatile, [
    'array_sample',
    'array_shuffle',
    'clock_timestamp',
    'gen_random_uuid',
    'random',
    'random_normal',
    'timeofday',
  ]);
});
