import test from 'ava';
import { deleteExpiredBranches } from '#domain/projects/store.ts';
import { afterRows, fillBranch } from '#domain/database/branch.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { findProject } from '#domain/projects/store.ts';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { addMember } from '#test/support/members.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { systemActor } from '#domain/audit/actor.ts';

const platform = usePlatform(test);

let user: TestUser;
let opened: Platform;

test.before('somebody is there', async () => {
  user = await platform().client.signUp();
  opened = await openPlatform(platform().config, memoryLog().log);
});
test.after.always(() => opened.close());

const at = (project: { readonly id: string }, path = '') => `/projects/${project.id}/branches${path}`;

const branch = (project: { readonly id: string }, body: unknown, token = user.token) =>
  platform().client.call('POST', at(project), { token, body });

const script = async (project: { readonly id: string }, sql: string): Promise<void> => {
  const answer = await platform().client.call('POST', `/projects/${project.id}/db/script`, {
    token: user.token,
    body: { sql },
  });
  if (answer.status !== 200) throw new Error(answer.text);
};

const query = async (project: { readonly id: string }, sql: string) =>
  (await platform().client.call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql } })).body
    .rows;

const schemaOf = async (project: { readonly id: string }): Promise<string> =>
  (await platform().client.call('GET', `/projects/${project.id}/db/schema.sql`, { token: user.token })).text;

const schema = `
  create type mood as enum ('sad', 'happy');
  create function label(mood) returns text language sql immutable as $$ select 'is ' || $1::text $$;
  create cast (mood as text) with function label(mood);
  create table guests (id bigint generated always as identity primary key, name text not null, mood mood, photo bytea,
    tags text[], twice text generated always as (name || name) stored, constraint named check (name <> ''));
  create table rooms (number numeric primary key, guest bigint references guests, "next, one" numeric references rooms);
  create table profiles (id uuid primary key references auth.users, guest bigint);
  create index on guests (name);
  create view happy with (security_invoker = true) as select * from guests where mood = 'happy';
  create materialized view counted as select count(*) as n from guests;
  alter table guests enable row level security;
  create policy everybody on guests for select using (true);
  create function stamp() returns trigger language plpgsql as $$ begin raise exception 'triggers do not run for a copy'; end $$;
  insert into guests (name, mood, photo, tags) values (e'tab\\t"quoted"', 'happy', '\\x00ff', '{"a b",null}'), ('Bo', null, null, null);
  insert into guests (name) select 'guest ' || i from generate_series(1, 1200) i;
  insert into rooms values (12345678901234567890.5, 1, null), (2, null, 12345678901234567890.5);
  refresh materialized view counted;
  create trigger stamped before insert on guests for each row execute function stamp();`;

const open = async (): Promise<TestProject> => {
  const project = await platform().client.createProject(user, { plan: 'pro' });
  await script(project, schema);
  return project;
};

test('a branch has the schema of its project, keys of its own and an end', async (t) => {
  const { client } = platform();
  const project = await open();
  const migrations = [{ name: '1_more', sql: 'create table more (id int)' }];
  await client.call('POST', `/projects/${project.id}/db/migrations`, { token: user.token, body: { migrations } });
  const made = await branch(project, { name: 'PR 12', expires_in_hours: 5 });
  t.is(made.status, 201, made.text);
  const { body } = made;
  t.like(body, { name: 'PR 12', branch_of: project.id, status: 'active', plan: 'pro', org_id: project.orgId });
  t.not(body.api_key, project.key);
  t.is(Math.round((Date.parse(body.expires_at) - Date.parse(body.created_at)) / 3_600_000), 5);
  t.is(await schemaOf(body), await schemaOf(project));
  t.deepEqual(
    await query(
      body,
      'select (select count(*)::int from guests) as guests, (select count(*)::int from rooms) as rooms',
    ),
    [{ guests: 0, rooms: 0 }],
  );
  t.deepEqual(await query(body, 'select name from plinth_migrations.applied'), [{ name: '1_more' }]);
  const { branches, total } = (await client.call('GET', at(project), { token: user.token })).body;
  t.deepEqual([total, branches[0].id, branches[0].api_key], [1, body.id, undefined]);
  const rest = await client.call('GET', `/p/${body.ref}/v1/rest/more`, { key: body.api_key });
  t.is(rest.status, 200, rest.text);
  t.is((await client.call('GET', `/p/${body.ref}/v1/rest/more`, { key: project.key })).status, 401);
});

test('with rows it has them exactly, its sequences go on, and references to users hold for new rows', async (t) => {
  const project = await open();
  const made = await branch(project, { name: 'with rows', with_rows: true });
  t.is(made.status, 201, made.text);
  const all = `select (select json_agg(g order by id)::text from guests g) as g, (select json_agg(r order by number)::text from rooms r) as r,
    (select n::int from counted) as n`;
  t.deepEqual(await query(made.body, all), await query(project, all));
  t.deepEqual(await query(made.body, `select nextval(pg_get_serial_sequence('guests', 'id'))::int as next`), [
    { next: 1203 },
  ]);
  t.deepEqual(
    await query(
      made.body,
      `select convalidated as v from pg_constraint where confrelid = 'auth.users'::regclass and conrelid = 'profiles'::regclass`,
    ),
    [{ v: false }],
  );
});

test('references to users hold for the rows that come, and a long text is read through once', (t) => {
  const key = 'alter table a add constraint k FOREIGN KEY (u) REFERENCES auth.users(id)';
  const others = [
    'alter table a add constraint k FOREIGN KEY (u) REFERENCES other(id)',
    "comment on table a is ' foreign key references auth.users'",
    `alter table a add check (a <> '${' foreign key '.repeat(1_000_000)}')`,
    `${key} NOT VALID`,
  ];
  t.deepEqual(afterRows({ after: [key, ...others] }), [`${key} not valid`, ...others]);
});

test('rows that a policy hides from the owner, too, make no branch of a part of them', async (t) => {
  const project = await open();
  await script(project, 'alter table guests force row level security');
  const made = await branch(project, { name: 'hidden', with_rows: true });
  t.is(made.status, 500);
  t.is(made.body.code, 'provision_failed');
  const failedId = made.body.details.project_id;
  t.is((await branch(project, { name: 'hidden', with_rows: true })).status, 409, 'it is there until it is deleted');
  t.is((await platform().client.call('DELETE', at(project, `/${failedId}`), { token: user.token })).status, 204);
  await script(project, 'alter table guests no force row level security');
  t.is((await branch(project, { name: 'hidden', with_rows: true })).status, 201, 'its name can be used again');
});

test('databases that are too large come without rows, which is said before a copy begins', async (t) => {
  const project = await platform().client.createProject(user, { plan: 'pro' });
  await script(
    project,
    `create table large (b bytea); alter table large alter b set storage external;
     insert into large select decode(repeat('ab', 1000000), 'hex') from generate_series(1, 110)`,
  );
  const refused = await branch(project, { name: 'large', with_rows: true });
  t.deepEqual([refused.status, refused.body.code, refused.body.details.limit], [413, 'payload_too_large', 104_857_600]);
  t.true(refused.body.details.value > 110_000_000);
  const { branches } = (await platform().client.call('GET', at(project), { token: user.token })).body;
  t.deepEqual(branches, []);
  const made = await branch(project, { name: 'large' });
  t.is(made.status, 201, made.text);
  t.deepEqual(await query(made.body, 'select count(*)::int as n from large'), [{ n: 0 }]);
});

test('rows that the server has compressed are copied a few at a time, and larger ones than that are refused', async (t) => {
  const project = await platform().client.createProject(user, { plan: 'pro' });
  await script(
    project,
    `create table notes (text text);
     create function hidden(notes) returns text language sql immutable as $$ select '' $$;
     create cast (notes as text) with function hidden(notes);
     insert into notes select repeat(i::text, 3000000) from generate_series(1, 9) i`,
  );
  const lengths = 'select sum(length(text))::int as n, count(distinct left(text, 1))::int as kinds from notes';
  const made = await branch(project, { name: 'few', with_rows: true });
  t.is(made.status, 201, made.text);
  t.deepEqual(await query(made.body, lengths), [{ n: 27_000_000, kinds: 9 }]);
  await script(project, `insert into notes values (repeat('x', 40000000))`);
  const refused = await branch(project, { name: 'one', with_rows: true });
  t.deepEqual([refused.status, refused.body.code], [500, 'provision_failed']);
  t.regex(refused.body.message, /A row of public\.notes has more than 32 MB as text/);
  const { branches } = (await platform().client.call('GET', at(project), { token: user.token })).body;
  t.is(branches.find(({ name }: { name: string }) => name === 'one').status, 'failed');
});

test('a branch that a process left half-way is filled again, and a whole one is not touched', async (t) => {
  const { db, projects } = opened;
  const project = await open();
  const { body } = await branch(project, { name: 'again' });
  const row = await findProject(db, body.id);
  if (row === undefined) throw new Error('the branch has no row');
  await script(body, 'create table mine (id int)');
  await fillBranch({ db, projects }, row);
  t.regex(await schemaOf(body), /create table public\.mine/);
  // A dead run leaves nothing, since it was one transaction.
  await script(
    body,
    'drop table mine, rooms, guests, profiles cascade; drop materialized view if exists counted; drop function stamp(), label(mood) cascade; drop type mood cascade',
  );
  await fillBranch({ db, projects }, row);
  t.is(await schemaOf(body), await schemaOf(project));
});

test('a branch that has migrations and no table is not filled twice', async (t) => {
  const { client } = platform();
  const { db, projects } = opened;
  const project = await client.createProject(user, { plan: 'pro' });
  const migrations = [{ name: '1_none', sql: 'select 1' }];
  await client.call('POST', `/projects/${project.id}/db/migrations`, { token: user.token, body: { migrations } });
  const { body } = await branch(project, { name: 'migrations' });
  const row = await findProject(db, body.id);
  if (row === undefined) throw new Error('the branch has no row');
  await t.notThrowsAsync(fillBranch({ db, projects }, row));
  t.deepEqual(await query(body, 'select name from plinth_migrations.applied'), [{ name: '1_none' }]);
});

test('a branch goes at its time, with its project, or when it is deleted', async (t) => {
  const { client } = platform();
  const { db } = opened;
  const project = await platform().client.createProject(user, { plan: 'pro' });
  const [one, two, three] = [
    await branch(project, { name: 'one' }),
    await branch(project, { name: 'two' }),
    await branch(project, { name: 'three' }),
  ];
  const seen = async (made: typeof one) =>
    (await client.call('GET', `/projects/${made.body.id}`, { token: user.token })).status;
  await db.transaction(
    (tx) => tx.query(`update projects set expires_at = now() - interval '1 s' where id = $1`, [one.body.id]),
    systemActor,
  );
  await db.transaction((tx) => deleteExpiredBranches(tx, 10), systemActor);
  t.deepEqual([await seen(one), await seen(two)], [404, 200]);
  const gone = await client.call('DELETE', at(project, `/${two.body.id}`), { token: user.token });
  t.is(gone.status, 204);
  t.is((await client.call('DELETE', at(project, `/${two.body.id}`), { token: user.token })).status, 404);
  t.deepEqual([await seen(two), await seen(three)], [404, 200]);
  t.is((await client.call('DELETE', `/projects/${project.id}`, { token: user.token })).status, 204);
  t.is(await seen(three), 404);
  await opened.projects.retireLeftOvers();
  await opened.projects.purge(7);
  const left = await db.query('select id from projects where branch_of = $1', [project.id]);
  t.deepEqual(left, [], 'branches are not kept');
  t.is((await db.query('select from projects where id = $1', [project.id])).length, 1, 'and their project is');
});

test('branches are for developers, of projects alone, and as many as the plan gives', async (t) => {
  const { client } = platform();
  const project = await client.createProject(user);
  const other = await client.createProject(user, { plan: 'pro' });
  const [viewer, developer] = [
    await addMember(platform(), project.orgId, 'viewer'),
    await addMember(platform(), project.orgId, 'developer'),
  ];
  const stranger = await client.signUp();
  t.is((await branch(project, { name: 'x' }, viewer.token)).status, 403);
  t.is((await branch(project, { name: 'x' }, stranger.token)).status, 404);
  const made = await branch(project, { name: 'x' }, developer.token);
  t.is(made.status, 201, made.text);
  t.is((await branch(project, { name: 'x' })).status, 409, 'the slug is taken');
  t.is((await branch(made.body, { name: 'y' })).status, 409, 'a branch has no branches');
  t.is((await branch(project, { name: 'y' })).status, 201);
  const third = await branch(project, { name: 'z' });
  t.deepEqual([third.status, third.body.code], [403, 'plan_limit_exceeded']);
  for (const bad of [
    { name: '' },
    { name: 'a', expires_in_hours: 0 },
    { name: 'a', expires_in_hours: 721 },
    { name: 'a', more: 1 },
    {},
  ]) {
    t.is((await branch(other, bad)).status, 400, JSON.stringify(bad));
  }
  t.is(
    (await client.call('DELETE', at(other, `/${made.body.id}`), { token: user.token })).status,
    404,
    'of another project',
  );
  t.is((await client.call('DELETE', at(project, `/${other.id}`), { token: user.token })).status, 404, 'no branch');
  t.is((await client.call('DELETE', at(project, `/${made.body.id}`), { token: viewer.token })).status, 403);
  t.is((await client.call('DELETE', at(project, `/${made.body.id}`), { token: developer.token })).status, 204);
});
