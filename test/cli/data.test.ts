import test from 'ava';
import { inOrder } from '#cli/commands/database/dump.ts';
import { parseExact } from '#cli/commands/database/exact.ts';
import { openLinked, useWorkbenches } from '#test/support/cli.ts';
import { addMember } from '#test/support/members.ts';
import { makeToken } from '#test/support/personal-token.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });
const kept = useWorkbenches(test);

const open = async (sql = '') => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user, { plan: 'pro' });
  const bench = await kept(openLinked(platform(), user, project));
  if (sql !== '') {
    const ran = await bench.run(['db', 'psql', '-f', await bench.write('made by hand.sql', sql)]);
    if (ran.code !== 0) throw new Error(ran.stderr);
  }
  return { user, project, bench };
};

const query = async (bench: Awaited<ReturnType<typeof open>>['bench'], sql: string) => {
  const { value, code, stderr } = await bench.json(['db', 'psql', '-c', sql]);
  if (code !== 0) throw new Error(stderr);
  return value.rows;
};

const everyKind = `
  create schema extra;
  create extension citext;
  create type mood as enum ('sad', 'happy');
  create domain percent as int check (value < 101);
  create type pair as (a int, b int);
  create table extra.things (id int primary key);
  create table guests (id bigint generated always as identity primary key, mood mood, share percent, pair pair, name citext);
  create table rooms (number int primary key, guest bigint references guests, thing int references extra.things);
  create view open_rooms as select * from rooms;
  create materialized view totals as select count(*) from rooms;
  create sequence numbers;
  create function f(m mood) returns int language sql as 'select 1';
  create procedure p() language sql as 'select 1';
  create aggregate total (int) (sfunc = int4pl, stype = int);
  insert into guests (mood, share) values ('sad', 5);`;

test('a reset begins again: all that was made by hand goes, the migrations and the seed come', async (t) => {
  const { bench } = await open();
  await bench.write('plinth/migrations/20260101000001_base.sql', 'create table guests (id int primary key);');
  await bench.write('plinth/seed.sql', 'insert into guests values (7);');
  t.is((await bench.run(['db', 'push'])).code, 0);
  const byHand = await bench.write(
    'by hand.sql',
    everyKind.replace(/create table guests[^;]*;/, '').replace(/insert[^;]*;/, ''),
  );
  const made = await bench.run(['db', 'psql', '-f', byHand]);
  t.is(made.code, 0, made.stderr);
  const unanswered = await bench.run(['db', 'reset']);
  t.is(unanswered.code, 2, 'nobody can be unanswered');
  t.regex(unanswered.stderr, /guests/);
  const done = await bench.json(['db', 'reset', '--yes']);
  t.is(done.code, 0, done.stderr);
  t.deepEqual(done.value, { reset: true, seeded: true });
  t.deepEqual(await query(bench, 'select id from guests'), [{ id: 7 }]);
  const status = await bench.run(['db', 'status']);
  t.is(status.code, 0, `nothing is left over: ${status.stderr}`);
  t.deepEqual((await bench.json(['db', 'reset', '--yes', '--no-seed'])).value, { reset: true, seeded: false });
  t.deepEqual(await query(bench, 'select id from guests'), []);
});

test('a reset leaves users and files, and needs the role developer', async (t) => {
  const { bench, project } = await open();
  await bench.write('plinth/migrations/20260101000001_base.sql', 'create table notes (of uuid references auth.users);');
  t.is((await bench.run(['db', 'push'])).code, 0);
  const viewer = await makeToken(platform().client, await addMember(platform(), project.orgId, 'viewer'));
  const refused = await bench.run(['db', 'reset', '--yes'], { env: { PLINTH_ACCESS_TOKEN: viewer.token } });
  t.is(refused.code, 1);
  t.deepEqual(await query(bench, `select count(*)::int as applied from plinth_migrations.applied`), [{ applied: 1 }]);
  t.is((await bench.run(['db', 'reset', '--yes'])).code, 0);
  t.deepEqual(await query(bench, 'select count(*)::int as users from auth.users'), [{ users: 0 }]);
});

const rows = `
  create table guests (id bigint generated always as identity primary key, name text, born date, tags text[], extra jsonb, photo bytea,
    twice bigint generated always as (9007199254740993) stored, ok boolean);
  create table rooms (number numeric primary key, guest bigint references guests, boss numeric references rooms);
  insert into guests (name, born, tags, extra, photo, ok) values
    (e'tab\\tline\\nback\\\\slash', '2020-02-29', '{"a b",c}', '{"x": 1.10}', '\\x00ff', true), (null, null, null, null, null, false);
  insert into guests (name) select 'guest ' || i from generate_series(1, 4500) i;
  insert into rooms values (12345678901234567890.123456789, 1, null);`;

test('rows that were dumped come back by a seed, exactly and with their sequences', async (t) => {
  const { bench } = await open(rows);
  const schema = await bench.run(['db', 'dump', '-o', 'plinth/migrations/20260101000001_all.sql']);
  t.is(schema.code, 0, schema.stderr);
  const data = await bench.run(['db', 'dump', '--data', '--output', 'plinth/seed.sql']);
  t.is(data.code, 0, data.stderr);
  const all =
    'select (select json_agg(g order by id)::text from guests g) as g, (select json_agg(r)::text from rooms r) as r';
  const before = await query(bench, all);
  const done = await bench.run(['db', 'reset', '--yes']);
  t.is(done.code, 0, done.stderr);
  t.deepEqual(await query(bench, all), before);
  t.deepEqual(await query(bench, `insert into guests (name) values ('next') returning id`), [{ id: 4503 }]);
  t.is(
    (await bench.run(['db', 'dump', '--data'])).stdout.split('\n').filter((line) => line.startsWith('copy ')).length,
    2,
  );
});

test('the schema is printed, and a file that cannot be written is said so', async (t) => {
  const { bench } = await open('create table guests (id int primary key);');
  t.regex((await bench.run(['db', 'dump'])).stdout, /create table public\.guests/);
  t.regex((await bench.json(['db', 'dump', '--data'])).value.sql, /^-- The rows/);
  const failed = await bench.run(['db', 'dump', '-o', 'plinth/config.json/all.sql']);
  t.is(failed.code, 1);
  t.regex(failed.stderr, /cannot be written/);
  t.is((await bench.run(['db', 'dump', '-o', ''])).code, 2);
});

test('statements come from an option, a file and standard input; a wrong one is shown with its place', async (t) => {
  const { bench } = await open();
  const one = await bench.run([
    'db',
    'psql',
    '-c',
    "select 12345678901234567890::numeric as n, 9007199254740993 as b, '{}'::jsonb as j",
  ]);
  t.is(one.code, 0, one.stderr);
  t.regex(one.stdout, /12345678901234567890 +9007199254740993 +\{\}/);
  const piped = await bench.run(['db', 'psql'], {
    input: "create table t (a text); insert into t values (';'); select a from t;",
  });
  t.is(piped.code, 0, piped.stderr);
  t.regex(piped.stdout, /^;$/m);
  t.regex(piped.stderr, /INSERT 1/);
  const wrong = await bench.run(['db', 'psql', '-c', 'select 1,\n  nothing from t']);
  t.is(wrong.code, 1);
  t.regex(wrong.stderr, /line 2: column "nothing" does not exist\n {2}\s*nothing from t\n\s*\^/);
  t.is((await bench.run(['db', 'psql', '-c', ' '])).code, 2);
  t.is((await bench.run(['db', 'psql', '-c', 'select 1', '-f', 'x'])).code, 2);
  const { value } = await bench.json(['db', 'psql', '-c', 'select 1 as a; select 2 as b']);
  t.deepEqual(
    value.map((answer: { rows: unknown }) => answer.rows),
    [[{ a: 1 }], [{ b: 2 }]],
  );
});

test('a branch is made, used by its ref, listed and deleted', async (t) => {
  const { bench, project } = await open('create table guests (id int primary key); insert into guests values (7);');
  const made = await bench.json(['db', 'branch', 'create', 'PR 12', '--rows', '--hours', '2']);
  t.is(made.code, 0, made.stderr);
  t.is(made.value.branch_of, project.id);
  const of = ['--project', made.value.ref];
  const { value } = await bench.json(['db', 'psql', '-c', 'delete from guests returning id', ...of]);
  t.deepEqual(value.rows, [{ id: 7 }]);
  t.deepEqual(await query(bench, 'select id from guests'), [{ id: 7 }], 'the project is as it was');
  t.regex((await bench.run(['db', 'branch', 'list'])).stdout, /PR 12/);
  const none = await bench.run(['db', 'branch', 'delete', 'PR 13', '--yes']);
  t.is(none.code, 4);
  t.regex(none.stderr, /PR 12/);
  t.is((await bench.run(['db', 'branch', 'delete', 'PR 12'])).code, 2, 'nobody can be asked');
  t.is((await bench.run(['db', 'branch', 'delete', 'PR 12', '--yes'])).code, 0);
  t.deepEqual((await bench.json(['db', 'branch', 'list'])).value, []);
  t.is((await bench.run(['db', 'psql', '-c', 'select 1', ...of])).code, 4);
  for (const bad of ['0', '721', 'x']) t.is((await bench.run(['db', 'branch', 'create', 'x', '--hours', bad])).code, 2);
});

test('numbers that JavaScript cannot hold are read as their text', (t) => {
  t.deepEqual(parseExact('{"a":9007199254740993,"b":"1.10","c":[1,-2.5,1.10,1e400],"d\\"1":true}'), {
    a: '9007199254740993',
    b: '1.10',
    c: [1, -2.5, '1.10', '1e400'],
    'd"1': true,
  });
});

const table = (name: string, ...to: string[]) => ({
  schema: 'public',
  name,
  kind: 'table',
  row_estimate: null,
  columns: [],
  foreign_keys: to.map((other) => ({ references: { schema: 'public', table: other } })),
});

test('tables come after those that they refer to, also where they go round in a circle', (t) => {
  const names = inOrder([table('a', 'b'), table('b', 'c'), table('c', 'a'), table('d', 'd')]).map(({ name }) => name);
  t.deepEqual(names, ['c', 'b', 'a', 'd']);
});
