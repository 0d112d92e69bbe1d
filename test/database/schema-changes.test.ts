import test from 'ava';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;

test.before('there is a project', async () => {
  scene = await openScene(platform());
});

const at = (table: string, rest = ''): string => `/tables/${encodeURIComponent(table)}${rest}`;

/** A dry run answers the SQL and changes nothing; then the change itself says that it ran the same. */
const bothWays = async (
  t: { is: (a: unknown, b: unknown, message?: string) => void },
  [method, path, body]: readonly [string, string, unknown],
  sql: string,
): Promise<void> => {
  const dry = await scene.call(method, `${path}${path.includes('?') ? '&' : '?'}dry_run=true`, body);
  t.is(dry.status, 200, dry.text);
  t.is(dry.body.sql, sql);
  const done = await scene.call(method, path, body);
  t.is(done.status, method === 'DELETE' ? 204 : method === 'POST' ? 201 : 200, done.text);
  if (method !== 'DELETE' && done.body.sql !== undefined) t.is(done.body.sql, sql);
};

// One after the other: a project has four connections as its owner.
test.serial('each change of the schema says its SQL, and runs just that', async (t) => {
  const id = { name: 'id', type: 'bigint', primary_key: true };
  await bothWays(
    t,
    ['POST', '/tables', { name: 'a "b"', columns: [id, { name: 'n', type: 'int' }] }],
    'create table public."a ""b""" (\n  "id" bigint not null,\n  "n" int,\n  primary key ("id")\n);',
  );
  const table = 'public."a ""b"""';
  const name = 'a "b"';
  await bothWays(
    t,
    ['POST', at(name, '/columns'), { name: 'x', type: 'text', default: `'it''s'` }],
    `alter table ${table} add column "x" text default ('it''s');`,
  );
  await bothWays(
    t,
    [
      'PATCH',
      at(name, '/columns/n'),
      { type: 'text', using: 'n::text', default: `'0'`, nullable: false, comment: 'it’s', name: 'm' },
    ],
    `alter table ${table} alter column "n" type text using (n::text), alter column "n" set default ('0'), alter column "n" set not null;\n` +
      `comment on column ${table}."n" is 'it’s';\nalter table ${table} rename column "n" to "m";`,
  );
  await bothWays(
    t,
    ['PATCH', at(name, '/columns/m'), { default: null, nullable: true, comment: null }],
    `alter table ${table} alter column "m" drop default, alter column "m" drop not null;\n` +
      `comment on column ${table}."m" is null;`,
  );
  await bothWays(
    t,
    ['POST', at(name, '/constraints'), { kind: 'check', name: 'short', expression: 'length(x) < 9' }],
    `alter table ${table} add constraint "short" check (length(x) < 9);`,
  );
  await bothWays(
    t,
    ['POST', at(name, '/constraints'), { kind: 'unique', columns: ['m', 'x'] }],
    `alter table ${table} add unique ("m", "x");`,
  );
  await bothWays(
    t,
    ['DELETE', at(name, '/constraints/short'), undefined],
    `alter table ${table} drop constraint "short";`,
  );
  await bothWays(
    t,
    ['POST', '/tables', { name: 'other', columns: [id, { name: 'of', type: 'bigint' }] }],
    'create table public."other" (\n  "id" bigint not null,\n  "of" bigint,\n  primary key ("id")\n);',
  );
  await bothWays(
    t,
    [
      'POST',
      at('other', '/constraints'),
      { kind: 'foreign_key', columns: ['of'], references: { table: name }, on_delete: 'cascade' },
    ],
    `alter table public."other" add foreign key ("of") references ${table} ("id") on delete cascade on update no action;`,
  );
  const index = {
    name: 'by x',
    unique: true,
    columns: [{ column: 'x', operator_class: 'text_pattern_ops', direction: 'desc' }, { expression: 'lower(m)' }],
    include: ['id'],
    predicate: 'x is not null',
  };
  await bothWays(
    t,
    ['POST', at(name, '/indexes'), index],
    `create unique index "by x" on ${table} using btree ("x" "text_pattern_ops" desc, (lower(m))) include ("id") where (x is not null);`,
  );
  await bothWays(t, ['DELETE', at(name, '/indexes/by%20x'), undefined], 'drop index public."by x";');
  await bothWays(
    t,
    ['PATCH', at(name), { comment: 'of all', row_level_security: { enabled: true, forced: true } }],
    `alter table ${table} enable row level security;\nalter table ${table} force row level security;\ncomment on table ${table} is 'of all';`,
  );
  const policy = {
    name: 'see "it"',
    command: 'select',
    permissive: false,
    roles: ['anon', 'authenticated'],
    using: 'x = m',
  };
  await bothWays(
    t,
    ['POST', at(name, '/policies'), policy],
    `create policy "see ""it""" on ${table} as restrictive for select to anon, authenticated using (x = m);`,
  );
  await bothWays(
    t,
    ['PATCH', at(name, '/policies/see%20%22it%22'), { using: 'true', name: 'see' }],
    `alter policy "see ""it""" on ${table} using (true);\nalter policy "see ""it""" on ${table} rename to "see";`,
  );
  await bothWays(t, ['DELETE', at(name, '/policies/see'), undefined], `drop policy "see" on ${table};`);
  await bothWays(
    t,
    ['POST', '/enums', { name: 'mood', values: ['sad', `it's`] }],
    `create type public."mood" as enum ('sad', 'it''s');`,
  );
  await bothWays(
    t,
    [
      'PATCH',
      '/enums/mood',
      { add: { value: 'ok', before: `it's` }, rename: { from: 'sad', to: 'blue' }, name: 'moods' },
    ],
    `alter type public."mood" rename value 'sad' to 'blue';\nalter type public."mood" add value 'ok' before 'it''s';\nalter type public."mood" rename to "moods";`,
  );
  t.deepEqual((await scene.run(`select enum_range(null::moods)::text as r`)).rows, [{ r: `{blue,ok,it's}` }]);
  await bothWays(t, ['DELETE', '/enums/moods', undefined], 'drop type public."moods";');
  await scene.run('create type nothing as enum ()');
  await bothWays(
    t,
    ['PATCH', '/enums/nothing', { add: { value: 'some' } }],
    `alter type public."nothing" add value 'some';`,
  );
  await bothWays(t, ['PATCH', at('other'), { name: 'renamed' }], 'alter table public."other" rename to "renamed";');
  await bothWays(
    t,
    ['DELETE', `${at(name, '/columns/x')}?cascade=true`, undefined],
    `alter table ${table} drop column "x" cascade;`,
  );
  await bothWays(t, ['DELETE', `${at(name)}?cascade=true`, undefined], `drop table ${table} cascade;`);
});

test.serial('a change that is not possible is refused in words, and changes nothing', async (t) => {
  await scene.run('create table things (id int primary key, name text not null)');
  await scene.run(`insert into things values (1, 'x')`);
  const refused: readonly (readonly [string, string, unknown, number, string])[] = [
    ['PATCH', at('things'), {}, 400, 'validation_failed'],
    ['PATCH', at('things', '/columns/nam'), { nullable: true }, 404, 'not_found'],
    ['PATCH', at('things', '/columns/name'), { default: `'x'); drop table things; --` }, 400, 'validation_failed'],
    ['PATCH', at('things', '/columns/name'), { type: 'int; drop table things' }, 400, 'validation_failed'],
    ['PATCH', at('things', '/columns/name'), { using: '1' }, 400, 'validation_failed'],
    ['PATCH', at('things', '/columns/name'), { type: 'int', using: 'name::int' }, 400, '22P02'],
    ['POST', at('things', '/constraints'), { kind: 'check', expression: 'id > 1' }, 400, '23514'],
    ['POST', at('things', '/constraints'), { kind: 'unique', columns: ['nam'] }, 400, 'validation_failed'],
    [
      'POST',
      at('things', '/constraints'),
      { kind: 'foreign_key', columns: ['id', 'name'], references: { table: 'things' } },
      400,
      'validation_failed',
    ],
    ['DELETE', at('things', '/constraints/things_pke'), undefined, 404, 'not_found'],
    ['POST', at('things', '/indexes'), { columns: [{}] }, 400, 'validation_failed'],
    ['POST', at('things', '/indexes'), { columns: [{ expression: 'id) ; --' }] }, 400, 'validation_failed'],
    ['DELETE', at('things', '/indexes/none'), undefined, 404, 'not_found'],
    ['POST', at('things', '/policies'), { name: 'p', roles: ['postgres'] }, 400, 'validation_failed'],
    ['POST', at('things', '/policies'), { name: 'p', command: 'insert', using: 'true' }, 400, '42601'],
    ['PATCH', at('things', '/policies/none'), { using: 'true' }, 404, 'not_found'],
    ['POST', '/enums', { name: 'e', values: ['a', 'a'] }, 400, 'validation_failed'],
    ['PATCH', '/enums/none', { name: 'x' }, 404, 'not_found'],
    ['PATCH', `${at('things')}?dry_run=yes`, { name: 'x' }, 400, 'validation_failed'],
    ['PATCH', at('nowhere'), { name: 'x' }, 404, 'not_found'],
  ];
  for (const [method, path, body, status, code] of refused) {
    isError(t, await scene.call(method, path, body), status, code);
  }
  for (const [method, path, body] of refused) {
    t.is((await scene.call(method, path, body, scene.viewer)).status, 403, `${method} ${path}`);
  }
  t.deepEqual((await scene.run('select * from things')).rows, [{ id: 1, name: 'x' }]);
});

test.serial('a dry run takes no lock: it is answered while a change waits', async (t) => {
  await scene.run('create table busy (id int primary key)');
  const slow = scene.query('insert into busy select 1 from pg_sleep(2)');
  const dry = await scene.call('PATCH', `${at('busy')}?dry_run=true`, { name: 'other' });
  t.is(dry.status, 200, dry.text);
  t.is((await slow).status, 200);
});

test.serial('an enumerated type of megabytes is not read, and the others are', async (t) => {
  const types = { long: 70_000, many: 30_000 };
  for (const [name, count] of Object.entries(types)) {
    await scene.run(`do $$ begin execute (
      select 'create type ${name}_type as enum (' || string_agg(quote_literal(lpad(i::text, 63, 'x')), ',') || ')'
      from generate_series(1, ${count}) i); end $$`);
  }
  const add = { add: { value: 'last' } };
  const refused = await scene.call('PATCH', '/enums/long_type', add);
  isError(t, refused, 413, 'payload_too_large');
  t.is(refused.body.message, 'The values of the type are more than 4 MB.');
  t.is((await scene.call('PATCH', '/enums/many_type', add)).status, 200);
  isError(t, await scene.call('DELETE', '/enums/none', undefined), 404, 'not_found');
  await scene.run('create table described (a many_type)');
  const described = await scene.call('GET', '/tables/described/schema');
  t.is(described.body.columns[0].enum_values.length, 30_001);
});
