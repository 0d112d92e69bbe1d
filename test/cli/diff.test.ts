import { readFile } from 'node:fs/promises';
import test from 'ava';
import { differencesOf, draftOf } from '#cli/commands/database/diff/draft.ts';
import { statementsOf } from '#cli/commands/database/diff/sql.ts';
import { openLinked, useWorkbenches } from '#test/support/cli.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });
const kept = useWorkbenches(test);

const base = `
  create type mood as enum ('sad', 'happy');
  create domain percent as int default 0 constraint in_range check (value between 0 and 100);
  create table guests (id int primary key, name text not null, mood mood default 'sad', age int, share percent);
  create table rooms (number int primary key, guest int references guests, price numeric(8, 2) default 10 check (price > 0));
  create index rooms_guest on rooms (guest);
  create view open_rooms with (security_invoker = true) as select number, price from rooms where guest is null;
  create function room_count() returns int language sql stable as 'select count(*)::int from public.rooms';
  alter table rooms enable row level security;
  create policy mine on rooms for select to authenticated using (guest = 1);
  create function stamp() returns trigger language plpgsql as $$ begin new.price := 1; return new; end $$;
  create trigger stamped before insert on rooms for each row execute function stamp();
  comment on table rooms is 'where guests sleep';
`;

/** A project whose migration is `base`, and on which somebody then did `byHand`. */
const open = async (byHand = '', first = base) => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user, { plan: 'pro' });
  const bench = await kept(openLinked(platform(), user, project));
  await bench.write('plinth/migrations/20260101000001_base.sql', first);
  const pushed = await bench.run(['db', 'push']);
  if (pushed.code !== 0) throw new Error(pushed.stderr);
  const script = async (sql: string): Promise<void> => {
    const where = `/projects/${project.id}/db/script`;
    const { status, text } = await platform().client.call('POST', where, { token: user.token, body: { sql } });
    if (status !== 200) throw new Error(text);
  };
  if (byHand !== '') await script(byHand);
  return { bench, script, project, user };
};

/** The statements of a draft that are no comments. */
const statements = (draft: string): string[] => statementsOf(draft).filter((sql) => !sql.startsWith('--'));

test('a draft of sixteen changes makes what was made by hand, and then there is no difference', async (t) => {
  const { bench } = await open(`
    alter type mood add value 'calm' before 'happy';
    alter domain percent drop constraint in_range;
    alter domain percent add constraint in_range check (value between 0 and 1000);
    alter domain percent set default 5;
    create domain code as text check (value ~ '^[A-Z]{3}$');
    alter table guests add column code code;
    alter table guests alter column age type bigint;
    alter table guests alter column age set default 18;
    alter table guests alter column name drop not null;
    alter table rooms drop constraint rooms_price_check;
    alter table rooms add constraint rooms_price_check check (price >= 0);
    alter table rooms add constraint cheap check (price < 1000);
    drop index rooms_guest;
    create unique index rooms_guest on rooms (guest) where guest is not null;
    create or replace view open_rooms with (security_invoker = true) as select number, price, guest from rooms;
    create or replace function room_count() returns int language sql stable as 'select 1';
    drop policy mine on rooms;
    create policy mine on rooms for select to authenticated using (guest = 2);
    create policy theirs on rooms for insert to authenticated with check (true);
    drop trigger stamped on rooms;
    create trigger stamped before insert or update on rooms for each row execute function stamp();
    comment on table rooms is 'where guests wake up; "quoted"';
    comment on column rooms.price is 'a night';
    create materialized view totals as select sum(price) as price from rooms;
    create table invoices (id bigint generated always as identity primary key, total numeric not null);
    alter table invoices enable row level security;
  `);
  const drafted = await bench.run(['db', 'diff', '--name', 'by hand']);
  t.is(drafted.code, 0, drafted.stderr);
  const file = drafted.stdout.trim();
  t.regex(file, /^plinth\/migrations\/\d{14}_by_hand\.sql$/);
  const draft = await readFile(`${bench.folder}/${file}`, 'utf8');
  t.regex(draft, /alter type public\.mood add value 'calm' after 'sad'/);
  t.regex(draft, /create or replace view public\.open_rooms with \(security_invoker=true\)/);
  t.true(draft.indexOf('create domain public.code') < draft.indexOf('add column code'));
  t.notRegex(draft, /^(?:drop table|alter table .* drop column)/m);
  const again = await bench.json(['db', 'diff']);
  t.is(again.code, 0, again.stderr);
  t.deepEqual(again.value, { draft: null, file: null }, draft);
});

test('renames are questions, and nothing is dropped', async (t) => {
  const { bench } = await open(`
    alter table guests rename column name to full_name;
    alter table rooms rename to chambers;
    alter table guests drop column age;
    drop function room_count();`);
  const { code, stdout, stderr } = await bench.run(['db', 'diff']);
  t.is(code, 0, stderr);
  t.regex(
    stdout,
    /-- Was name renamed to full_name\?[^\n]*\n-- alter table public\.guests rename column name to full_name;/,
  );
  t.regex(
    stdout,
    /-- Was public\.rooms renamed to public\.chambers\?[^\n]*\n-- alter table public\.rooms rename to chambers;/,
  );
  t.regex(stdout, /^-- alter table public\.guests drop column age;$/m);
  t.regex(stdout, /^-- drop table public\.rooms;$/m);
  t.regex(stdout, /^-- drop function public\.room_count\(\);$/m);
  t.deepEqual(
    statements(stdout).filter((sql) => /\bdrop\b/.test(sql.replaceAll(/--.*/g, ''))),
    [],
  );
});

test('a view that lost security_invoker, and one that got it, are changes', async (t) => {
  const opened = await open('alter view open_rooms reset (security_invoker)');
  const { stdout } = await opened.bench.run(['db', 'diff']);
  t.regex(stdout, /alter view public\.open_rooms reset \(security_invoker\)/);
  const status = await opened.bench.json(['db', 'status']);
  t.is(status.code, 5);
  const { draft } = (await opened.bench.json(['db', 'diff', '--reverse'])).value;
  t.regex(draft, /create or replace view public\.open_rooms with \(security_invoker=true\)/);
});

test('values of an enum that went, and row-level security that was turned off, are left to a person', async (t) => {
  const { bench } = await open(`
    alter table guests alter column mood drop default;
    alter type mood rename value 'sad' to 'blue';
    alter table rooms disable row level security;`);
  const { stdout } = await bench.run(['db', 'diff']);
  t.regex(stdout, /^-- values of public\.mood were removed, renamed or sorted/m);
  t.regex(stdout, /^-- alter table public\.rooms disable row level security;$/m);
  t.regex(stdout, /^alter table public\.guests alter column mood drop default;$/m);
});

test('drift is found by status and pull --check, named by its objects', async (t) => {
  const { bench, script } = await open();
  t.is((await bench.run(['db', 'status'])).code, 0);
  await bench.run(['db', 'pull']);
  t.is((await bench.run(['db', 'pull', '--check'])).code, 0);
  await script(`comment on column guests.name is 'in full'; create table extra (id int);`);
  const status = await bench.run(['db', 'status']);
  t.is(status.code, 5);
  t.regex(status.stdout, /applied +20260101000001_base/);
  t.regex(status.stderr, /\+ table public\.extra/);
  t.regex(status.stderr, /\+ comment column public\.guests\.name/);
  const { value } = await bench.json(['db', 'status']);
  t.is(value[0].state, 'applied');
  t.is((await bench.run(['db', 'status', '--fast'])).code, 0);
  await bench.run(['db', 'pull']);
  const check = await bench.run(['db', 'pull', '--check']);
  t.is(check.code, 5, 'the file is up to date, and the migrations are not');
  t.regex(check.stderr, /differs from what its migrations make/);
  t.is((await bench.run(['db', 'pull', '--check', '--fast'])).code, 0);
  await bench.write('plinth/migrations/20260101000002_extra.sql', 'create table more (id int);');
  const drafted = await bench.run(['db', 'diff']);
  t.regex(drafted.stdout, /create table public\.extra/);
  t.regex(drafted.stdout, /^-- drop table public\.more;/m);
});

test('a migration that fails in the throw-away database is shown with its place', async (t) => {
  const { bench } = await open();
  await bench.write('plinth/migrations/20260101000002_bad.sql', 'select 1;\nselect nothing;\n');
  const { code, stderr } = await bench.run(['db', 'diff']);
  t.is(code, 1);
  t.regex(stderr, /20260101000002_bad\.sql:2: column "nothing" does not exist/);
  t.regex(stderr, /throw-away database/);
});

test('a schema that a person wrote is led to', async (t) => {
  const { bench } = await open('', 'create table guests (id int primary key);');
  await bench.write(
    'schema wanted.sql',
    'create table guests (id int primary key, "Größe ""x""" text default \'a;b\');',
  );
  const { code, stdout, stderr } = await bench.run(['db', 'diff', '--schema', 'schema wanted.sql']);
  t.is(code, 0, stderr);
  t.deepEqual(statements(stdout), [`alter table public.guests add column "Größe ""x""" text default 'a;b'::text`]);
  t.is((await bench.run(['db', 'diff', '--schema', ''])).code, 2);
  t.is((await bench.run(['db', 'diff', '--name', '///'])).code, 2);
});

test('statements are divided where they end, whatever stands in strings and bodies', (t) => {
  const body = `CREATE OR REPLACE FUNCTION public.f(a text DEFAULT ';'::text)\n RETURNS text\n LANGUAGE plpgsql\nAS $function$ begin; -- '\n return E'\\';'; end $function$`;
  const atomic =
    'CREATE OR REPLACE FUNCTION public.g()\n RETURNS integer\n LANGUAGE sql\nBEGIN ATOMIC\n SELECT 1;\n SELECT 2;\nEND';
  const comment = `comment on table public."a;b" is 'it''s; -- one'`;
  t.deepEqual(statementsOf(`-- top\nset x = off;\n\n${body};\n\n/* ; */ ${comment};\n`), [
    'set x = off',
    body,
    `/* ; */ ${comment}`,
  ]);
  t.is(statementsOf(`${atomic};\n\n${comment};\n`).length, 2);
});

test('the same schema in another order is no difference, and each kind of object has its name', (t) => {
  const [one, two] = ['create schema a;', 'create schema "b;c";'];
  t.is(draftOf(`${one}\n\n${two}`, `${two}\n\n${one}`), null);
  const schema = `create type public.pair as (\n  a integer\n);
create cast (text as public.pair) with inout;
grant select on table public.t to anon;
create policy "my policy" on public.t for all to public using (true);`;
  t.deepEqual(
    differencesOf('', schema).map(({ object }) => object),
    [
      'type public.pair',
      'cast (text as public.pair)',
      'grant anon on table public.t',
      'policy "my policy" on public.t',
    ],
  );
});
