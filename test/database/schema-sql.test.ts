import type { Socket } from 'node:net';
import test from 'ava';
import { type Item, inOrder, ranks } from '#domain/database/schema-sql/item.ts';
import { dumpSchema } from '#domain/database/schema-sql/schema-sql.ts';
import { openPlatform } from '#domain/platform.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';
import { wireOf } from '#lib/postgres/wire.ts';
import { readTypedSchema } from '#domain/database/types.ts';
import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { makeDatabase } from './guard-scene.ts';
import { everything, inventory } from './schema-sql-scene.ts';

const platform = usePlatform(test);

let user: TestUser;

test.before('somebody is there', async () => {
  user = await platform().client.signUp();
});

const dump = (project: TestProject): Promise<Answer> =>
  platform().client.call('GET', `/projects/${project.id}/db/schema.sql`, { token: user.token });

const asOwner = async (project: TestProject, sql: string): Promise<void> =>
  asTenant(await tenantLogin(platform(), project.id, 'owner'), async (client) => void (await client.query(sql)));

/** Makes a schema, dumps it, restores it into another project as a migration: how often a person would. */
const restored = async (sql: string): Promise<{ from: TestProject; to: TestProject; text: string; answer: Answer }> => {
  const { client } = platform();
  const of = { plan: 'pro' };
  const [from, to] = [await client.createProject(user, of), await client.createProject(user, of)];
  await asOwner(from, sql);
  const { text, status } = await dump(from);
  if (status !== 200) throw new Error(text);
  const body = { migrations: [{ name: 'restore', sql: text }] };
  const answer = await client.call('POST', `/projects/${to.id}/db/migrations`, { token: user.token, body });
  return { from, to, text, answer };
};

const typed = (project: TestProject) => asAdmin(project.dbName, (admin) => readTypedSchema(admin, 10_000));

test('a schema of everything comes back the same in another project', async (t) => {
  const { from, to, answer, text } = await restored(everything);
  t.is(answer.status, 200, `${answer.text}\n${text}`);
  const [before, after] = [await inventory(from), await inventory(to)];
  t.deepEqual(after, before);
  t.is((await dump(to)).text, text);
  t.deepEqual(await typed(to), await typed(from));
});

test('tables whose foreign keys go round in a circle and to themselves come back', async (t) => {
  const { from, to, answer, text } = await restored(`
    create table a (id int primary key, b int, self int references a);
    create table b (id int primary key, c int);
    create table c (id int primary key, a int references a);
    alter table b add foreign key (c) references c;
    alter table a add constraint a_to_b foreign key (b) references b on update cascade on delete set null (b);`);
  t.is(answer.status, 200, `${answer.text}\n${text}`);
  t.deepEqual(await inventory(to), await inventory(from));
});

test('objects are in the order of what they need, whatever their names and kinds', async (t) => {
  const { from, to, answer, text } = await restored(`
    create view z as select 1 as one;
    create function y() returns setof z language sql begin atomic select * from z; end;
    create view x as select * from y();
    create domain w as int check (value > 0);
    create type v as (w w, list w[]);
    create table u (v v[], x x);
    create function t(u) returns int language sql begin atomic select 1; end;
    create view s as select t(u) as n from u;
    create function r(n int) returns int language sql immutable return n + 1;
    create table q (n int, more int generated always as (r(n)) stored, late int default r(3), check (r(n) > 0));
    create index q_r on q (r(n));`);
  t.is(answer.status, 200, `${answer.text}\n${text}`);
  t.deepEqual(await inventory(to), await inventory(from));
});

test('a dump names no role of the project, no object of the platform and no row', async (t) => {
  const project = await platform().client.createProject(user);
  await asOwner(
    project,
    `create table notes (body text); insert into notes values ('a secret of somebody');
    alter table notes enable row level security; create policy p on notes to "${project.ref}_service" using (true)`,
  );
  const { text, headers } = await dump(project);
  t.true(headers.get('content-type')?.startsWith('application/sql'));
  t.regex(text, /create table public\.notes/i);
  t.notRegex(text, /a secret/);
  t.notRegex(text, /plinth/);
  t.false(text.includes(project.ref));
  t.regex(text, /-- Not included: policy p on public\.notes/);
});

test('an empty project has an empty schema', async (t) => {
  const project = await platform().client.createProject(user);
  const { status, text } = await dump(project);
  t.is(status, 200);
  t.notRegex(text, /create|grant|alter|comment/i);
});

test('names that shadow those of the catalog do not lead the dump astray', async (t) => {
  const { from, to, answer } = await restored(`
    create table public.pg_class (oid int primary key, relname text);
    create table public.pg_attribute (attrelid int references public.pg_class);
    create function format(text, variadic text[]) returns text language sql as $$ select 'drop table public.pg_class' $$;
    create function quote_ident(text) returns text language sql as $$ select 'x; drop table y' $$;
    alter role current_user set search_path = public, pg_catalog;`);
  t.is(answer.status, 200, answer.text);
  t.deepEqual(await inventory(to), await inventory(from));
});

test('a table that somebody holds does not hold up the dump for good', async (t) => {
  const project = await platform().client.createProject(user);
  await asOwner(project, 'create table held (id int); create view seen as select * from held');
  await asTenant(await tenantLogin(platform(), project.id, 'owner'), async (client) => {
    await client.query('begin; insert into held values (1); create index on held (id)');
    const { status, text } = await dump(project);
    t.is(status, 200);
    t.notRegex(text, /create index/i);
  });
});

test('casts come back, and what is left out is named at the top', async (t) => {
  const { from, to, answer, text } = await restored(`
    create type mood as enum ('sad', 'happy');
    create function to_mood(int) returns mood language sql immutable return 'sad'::mood;
    create cast (int as mood) with function to_mood(int) as assignment;
    create table moods (of mood default 1::mood);
    create collation sorted from "C";
    create text search configuration own (copy = simple);
    create operator === (leftarg = int, rightarg = int, function = int4eq);
    create function slashes() returns text language sql as $$ select '
\\! touch /tmp/x
\\unrestrict x' $$;`);
  t.is(answer.status, 200, `${answer.text}\n${text}`);
  t.regex(text, /create cast \(integer as public\.mood\) with function public\.to_mood\(integer\) as assignment/);
  t.deepEqual(
    text.split('\n').filter((line) => line.startsWith('-- Not included')),
    [
      '-- Not included: collation public.sorted',
      '-- Not included: operator public.===(integer,integer)',
      '-- Not included: text search configuration public.own',
    ],
  );
  t.deepEqual(await inventory(to), await inventory(from));
});

test('names of several lines come back, and none of them is a comment or a command of psql', async (t) => {
  const sql = `create table "a\n\\! echo" (id int, "e\n\\! echo" int); comment on table "a\n\\! echo" is 'c\n\\! echo'`;
  const { from, to, answer, text } = await restored(sql);
  t.is(answer.status, 200, answer.text);
  t.false(text.includes('--'));
  t.deepEqual(await inventory(to), await inventory(from));
});

test('a table that somebody holds for itself alone does not hold up the dump for good', async (t) => {
  const project = await platform().client.createProject(user);
  await asOwner(project, 'create table held (id int)');
  await asTenant(await tenantLogin(platform(), project.id, 'owner'), async (client) => {
    await client.query('begin; lock table held in access exclusive mode');
    const { status, text } = await dump(project);
    t.true([200, 504].includes(status), text);
    await client.query('rollback');
  });
});

test('an owner sees the roles of its own project alone, others none', async (t) => {
  const [own, neighbour] = [await makeDatabase(platform()), await makeDatabase(platform())];
  const rows = await own.query('owner', 'select rolname from pg_roles');
  const names = rows.map(({ rolname }) => String(rolname));
  t.true(names.includes(`${own.ref}_owner`));
  t.false(names.some((name) => name.startsWith(neighbour.ref)));
  for (const role of ['service', 'reader', 'api'] as const)
    t.is(await own.stateOf(role, 'select * from pg_roles'), '42501', role);
});

const itemsOf = (kind: 'type' | 'function' | 'table', names: readonly string[]): Item[] =>
  names.map((name) => ({ key: name, name, rank: ranks[kind], sql: name }));

test('what waits for an object comes after it by rank and name, and before what was not made yet', (t) => {
  const items = [
    ...itemsOf('type', ['of_b', 'of_a', 'free']),
    ...itemsOf('function', ['f']),
    ...itemsOf('table', ['a', 'b', 'c']),
  ];
  const needs = [
    { key: 'of_b', on: 'b' },
    { key: 'of_b', on: 'a' },
    { key: 'of_a', on: 'a' },
    { key: 'f', on: 'of_b' },
  ];
  const names = inOrder(items, needs, []).map(({ name }) => name);
  t.deepEqual(names, ['free', 'a', 'of_a', 'b', 'of_b', 'f', 'c']);
  const circle = inOrder(
    itemsOf('type', ['y', 'x']),
    [
      { key: 'x', on: 'y' },
      { key: 'y', on: 'x' },
    ],
    [],
  );
  t.deepEqual(
    circle.map(({ name }) => name),
    ['x', 'y'],
  );
});

test('100,000 objects are put in order', (t) => {
  const names = Array.from({ length: 100_000 }, (_, index) => `f${String(index).padStart(6, '0')}`);
  t.deepEqual(
    inOrder(itemsOf('function', names.toReversed()), [], []).map(({ name }) => name),
    names,
  );
});

test('a schema of more than 20,000 objects is refused', async (t) => {
  const project = await platform().client.createProject(user, { plan: 'pro' });
  const functions = (from: number, to: number) =>
    asOwner(
      project,
      `do $$ begin for i in ${from}..${to} loop
        execute format('create function f%s() returns int language sql return 1', i); end loop; end $$`,
    );
  await functions(1, 19_000);
  t.is((await dump(project)).status, 200);
  await functions(19_001, 20_001);
  const refused = await dump(project);
  t.is(refused.status, 413);
  t.like(refused.body, { code: 'payload_too_large', message: 'The schema has too many objects to be written as SQL.' });
});

/** A comment of so many bytes, which the server stores in a hundredth of that. */
const comment = (table: string, bytes: number): string =>
  `do $$ begin execute 'comment on table ${table} is ' || quote_literal(repeat('a', ${bytes})); end $$;`;

test('a schema whose texts are longer than anybody could hold is refused before all of it is read', async (t) => {
  const project = await platform().client.createProject(user);
  const tables = ['a', 'b', 'c', 'd', 'e'];
  const sql = tables.map((table) => `create table ${table} (id int); ${comment(table, 20_000_000)}`).join('\n');
  await asOwner(project, sql);
  const opened = await openPlatform(platform().config, memoryLog().log);
  t.teardown(() => opened.close());
  const { tenantDb } = opened.projects;
  let socket: Socket | undefined;
  const noting: Pick<ProjectDb, 'use' | 'endSession'> = {
    endSession: tenantDb.endSession,
    use: (projectId, role, work) =>
      tenantDb.use(projectId, role, (client) => {
        socket = wireOf(client).stream as Socket;
        return work(client);
      }),
  };
  await t.throwsAsync(dumpSchema(noting, project.id), { code: 'payload_too_large' });
  t.true((socket?.bytesRead ?? 0) < 90_000_000, `${socket?.bytesRead}`);
});

test('a table whose texts are too long is not described, and the project goes on', async (t) => {
  const { client } = platform();
  const project = await client.createProject(user);
  const { token } = user;
  await asOwner(project, `create table a (id int); create table b (id int); ${comment('a', 20_000_000)}`);
  const read = (table: string) => client.call('GET', `/projects/${project.id}/db/tables/${table}/schema`, { token });
  const answer = await read('a');
  t.deepEqual([answer.status, answer.body.code], [413, 'payload_too_large'], answer.text.slice(0, 200));
  t.is((await read('b')).status, 200);
  const change = (table: string, path = '') =>
    client.call('PATCH', `/projects/${project.id}/db/tables/${table}/columns/id${path}`, {
      token,
      body: { comment: 'short' },
    });
  t.is((await change('a', '?dry_run=true')).status, 413);
  t.is((await change('a')).status, 413);
  t.is((await change('b')).status, 200);
});
