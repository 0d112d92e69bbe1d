import test from 'ava';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;

test.before('there is a project', async () => {
  scene = await openScene(platform());
});

const change = (table: string, changes: readonly unknown[], query = '', as = scene.owner) =>
  scene.call('POST', `/tables/${encodeURIComponent(table)}/changes${query}`, { changes }, as);

test.serial('rows are inserted, changed and deleted in one transaction, by the SQL that a dry run shows', async (t) => {
  await scene.run(
    `create table "it's" (id bigint primary key, "a ""b" text default 'new', n numeric, tags text[], doc jsonb, at timestamptz)`,
  );
  await scene.run(
    `insert into "it's" values (9007199254740993, 'old', 1.10, '{a,"b c"}', '{"x": [1]}', '2026-01-02T03:04:05.678901Z')`,
  );
  const { body: seen } = await scene.call('GET', `/${encodeURIComponent("it's")}/rows`);
  t.is(seen.length, 1);
  const key = '{"id":9007199254740993}';
  const old = '{"a \\"b":"old","n":1.10,"tags":["a","b c"],"doc":{"x":[1]},"at":"2026-01-02T03:04:05.678901+00:00"}';
  const body =
    `{"changes":[{"kind":"update","key":${key},"old":${old},"values":{"n":123456789012345678901.5,"tags":["z"],"doc":null,"a \\"b":""}},` +
    `{"kind":"insert","values":{"id":2}},{"kind":"insert","values":{"id":3,"a \\"b":null}},{"kind":"delete","key":{"id":3}}]}`;
  const send = async (query: string) => {
    const path = `/projects/${scene.project.id}/db/tables/${encodeURIComponent("it's")}/changes${query}`;
    const headers = { authorization: `Bearer ${scene.owner.token}`, 'content-type': 'application/json' };
    return fetch(platform().base + path, { method: 'POST', headers, body });
  };
  const dry = await send('?dry_run=true');
  t.is(dry.status, 200);
  const { sql } = (await dry.json()) as { sql: string };
  t.regex(sql, /^update public\."it's" set "n" = '123456789012345678901\.5', /);
  t.regex(sql, /where "id" = '9007199254740993' and "a ""b" = 'old' and "n" = '1\.10'/);
  t.true(sql.includes(`insert into public."it's" ("id") values ('2');`));
  t.is((await scene.run(`select count(*) from "it's"`)).rows[0].count, 1);
  const done = await send('');
  t.is(done.status, 200);
  t.is(((await done.json()) as { sql: string }).sql, sql);
  const { rows } = await scene.run(`select id::text, "a ""b" as a, n::text, tags, doc from "it's" order by 1`);
  t.deepEqual(rows, [
    { id: '2', a: 'new', n: null, tags: null, doc: null },
    { id: '9007199254740993', a: '', n: '123456789012345678901.5', tags: ['z'], doc: null },
  ]);
});

test.serial('rows that somebody else has changed are named, all of them, and nothing is written', async (t) => {
  await scene.run('create table notes (id int primary key, text text, data json)');
  await scene.run(`insert into notes values (1, 'one', '{"a": 1}'), (2, 'two', null), (3, 'three', '[]')`);
  await scene.run(`update notes set text = 'of the colleague' where id = 2`);
  await scene.run('delete from notes where id = 3');
  const answer = await change('notes', [
    { kind: 'update', key: { id: 1 }, old: { text: 'one', data: { a: 1 } }, values: { text: 'mine' } },
    { kind: 'update', key: { id: 2 }, old: { text: 'two' }, values: { text: 'mine' } },
    { kind: 'delete', key: { id: 3 }, old: { text: 'three' } },
  ]);
  isError(t, answer, 409, 'conflict');
  t.deepEqual(
    answer.body.details.map(({ path }: { path: string }) => path),
    ['changes.1', 'changes.2'],
  );
  t.deepEqual((await scene.run('select text from notes order by id')).rows, [
    { text: 'one' },
    { text: 'of the colleague' },
  ]);
});

test.serial('a row that the database refuses is named by its number, and nothing is written', async (t) => {
  await scene.run('create table short (id int primary key, name varchar(3) not null)');
  const answer = await change('short', [
    { kind: 'insert', values: { id: 1, name: 'abc' } },
    { kind: 'insert', values: { id: 2, name: 'abcd' } },
  ]);
  isError(t, answer, 400, '22001');
  t.is(answer.body.details.change, 1);
  t.is((await scene.run('select count(*) from short')).rows[0].count, 0);
});

test.serial('what cannot be meant is refused', async (t) => {
  await scene.run('create table bare (name text)');
  await scene.run('create view seen as select 1 as id');
  const refused: readonly (readonly [string, unknown, number])[] = [
    ['bare', { kind: 'update', key: {}, values: { name: 'x' } }, 400],
    ['notes', { kind: 'update', key: { id: 1 }, values: {} }, 400],
    ['notes', { kind: 'update', key: {}, values: { text: 'x' } }, 400],
    ['notes', { kind: 'update', key: { id: null }, values: { text: 'x' } }, 400],
    ['notes', { kind: 'update', key: { id: 1 }, values: { txt: 'x' } }, 400],
    ['notes', { kind: 'insert', values: { text: 'a\0b' } }, 400],
    ['notes', { kind: 'insert', values: { text: '\ud800' } }, 400],
    ['notes', { kind: 'truncate' }, 400],
    ['seen', { kind: 'insert', values: { id: 1 } }, 404],
    ['nowhere', { kind: 'insert', values: { id: 1 } }, 404],
  ];
  for (const [table, one, status] of refused) {
    const answer = await change(table, [one]);
    t.is(answer.status, status, answer.text);
    t.is((await change(table, [one], '?dry_run=true')).status, status, answer.text);
  }
  t.is((await change('notes', [])).status, 400);
  t.is((await change('notes', [{ kind: 'insert', values: { id: 9 } }], '', scene.viewer)).status, 403);
  t.is((await scene.run('select count(*) from notes where id = 9')).rows[0].count, 0);
});

test.serial('changes with exact numbers have 50,000 values', async (t) => {
  await scene.run('create table wide (id int, doc jsonb)');
  const doc = Array.from({ length: 60_000 }, () => 1);
  const whole = await change('wide', [{ kind: 'insert', values: { id: 1, doc } }]);
  t.is(whole.status, 200, whole.text);
  const refused = await change('wide', [{ kind: 'insert', values: { id: 1, doc: [...doc, 0.5] } }]);
  isError(t, refused, 400, 'validation_failed');
  t.regex(refused.body.message, /more than 50000 values/);
  t.deepEqual((await scene.run('select id from wide')).rows, [{ id: 1 }]);
});

test.serial('hundreds of changes of hundreds of columns are made, and a value of megabytes of quotes', async (t) => {
  const columns = Array.from({ length: 600 }, (_, index) => `c${index}`);
  await scene.run(`create table broad (id int primary key, quoted text, ${columns.map((c) => `${c} int`).join()})`);
  const ones = Object.fromEntries(columns.map((column) => [column, 1]));
  const quoted = "'".repeat(1_500_000);
  const changes = Array.from({ length: 120 }, (_, id) => ({
    kind: 'insert',
    values: { id, ...ones, ...(id === 0 && { quoted }) },
  }));
  const done = await change('broad', changes, '?dry_run=true');
  t.is(done.status, 200, done.text.slice(0, 200));
  t.is(done.body.sql.match(/^insert into public\."broad"/gm)?.length, 120);
  t.is((await change('broad', changes.slice(0, 2))).status, 200);
  t.deepEqual((await scene.run('select id, length(quoted) as long, c599 from broad order by 1')).rows, [
    { id: 0, long: 1_500_000, c599: 1 },
    { id: 1, long: null, c599: 1 },
  ]);
});
