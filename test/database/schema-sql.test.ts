import test from 'ava';
import { readTypedSchema } from '#domain/database/types.ts';
import type { Answer, TestProject, TestUser } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
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
