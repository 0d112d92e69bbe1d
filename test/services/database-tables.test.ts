import test from 'ava';
import { faultOf, useDatabaseService } from './scene.ts';

const scene = useDatabaseService(test);

test('insert answers what was made, one row for one and a list for a list', async (t) => {
  const run = scene().open();
  await run.query(`create table made (id int generated always as identity, name text, at date default '2024-01-01')`);
  t.deepEqual(await run.call('db.insert', { table: 'made', data: { name: 'a' } }), {
    id: 1,
    name: 'a',
    at: '2024-01-01',
  });
  t.deepEqual(await run.call('db.insert', { table: 'made', data: [{ name: 'b' }] }), [
    { id: 2, name: 'b', at: '2024-01-01' },
  ]);
  t.deepEqual(await run.call('db.insert', { table: 'made', data: {} }), { id: 3, name: null, at: '2024-01-01' });
  t.deepEqual((await run.call('db.insert', { table: 'made', data: [{}, {}] })).length, 2);
  t.deepEqual(await run.call('db.insert', { table: 'made', data: [] }), []);
  const mixed = await run.call('db.insert', { table: 'made', data: [{ name: 'c' }, { at: '2024-02-02' }] });
  t.deepEqual(
    mixed.map(({ name, at }: { name: string; at: string }) => [name, at]),
    [
      ['c', null],
      [null, '2024-02-02'],
    ],
  );
  await run.close();
});

test('values of every kind go in by the column’s type and come out the same', async (t) => {
  const run = scene().open();
  await run.query(`create table kinds (i int, b bigint, n numeric, f float8, t text, o jsonb, j json, a int[], ta text[],
    d date, ts timestamptz, by bytea, u uuid, bo bool, oa jsonb[])`);
  const row = {
    i: 1,
    b: '9223372036854775807',
    n: '12345678901234567890.123',
    f: 0.1,
    t: `'"\\; drop table kinds; --`,
    o: { a: [1, 'x', null] },
    j: [1, { b: 2 }],
    a: [1, null],
    ta: ['a,b', '{"'],
    d: '2024-02-29',
    ts: '2024-02-29T10:00:00.123456+00:00',
    by: '\\x00ff',
    u: '00000000-0000-0000-0000-000000000001',
    bo: false,
    oa: [{ a: 1 }],
  };
  t.deepEqual(await run.call('db.insert', { table: 'kinds', data: row }), row);
  t.is(
    await run.call('db.update', { table: 'kinds', data: { o: 'text', a: [], bo: null }, where: 'i = $1', params: [1] }),
    1,
  );
  t.like((await run.call('db.select', { table: 'kinds' }))[0], { o: 'text', a: [], bo: null });
  await run.close();
});

test('a thousand rows go in with one call, in their order', async (t) => {
  const run = scene().open();
  await run.query('create table many (id serial, n int)');
  const rows = await run.call('db.insert', { table: 'many', data: Array.from({ length: 1000 }, (_, n) => ({ n })) });
  t.deepEqual(
    rows.map(({ id, n }: { id: number; n: number }) => id - n),
    Array(1000).fill(1),
  );
  const fault = await faultOf(
    t,
    run.call('db.insert', { table: 'many', data: Array.from({ length: 10_001 }, (_, n) => ({ n })) }),
  );
  t.regex(fault.message, /at most 10000 rows/);
  await run.close();
});

test('select, update and remove take a condition whose parameters count from 1', async (t) => {
  const run = scene().open();
  await run.query('create table things (id int, name text)');
  await run.call('db.insert', { table: 'things', data: [1, 2, 3].map((id) => ({ id, name: `n${id}` })) });
  const where = 'id >= $1 and name <> $2 -- the rest';
  t.deepEqual(await run.call('db.select', { table: 'public.things', where, params: [2, 'n3'] }), [
    { id: 2, name: 'n2' },
  ]);
  t.is(await run.call('db.update', { table: 'things', data: { name: 'x', id: 9 }, where, params: [2, 'n3'] }), 1);
  t.deepEqual(await run.call('db.select', { table: 'things', where: `name = 'x'` }), [{ id: 9, name: 'x' }]);
  t.is(await run.call('db.remove', { table: 'things', where: 'id = any($1)', params: [[1, 9]] }), 2);
  t.is(await run.call('db.remove', { table: 'things', where: 'false' }), 0);
  t.is(await run.call('db.update', { table: 'things', data: { name: 'all' }, where: 'true' }), 1);
  await run.close();
});

/** Names that a careless caller could let through. */
const evil = [
  'x; drop table victim; --',
  'x"; drop table victim; --',
  '"victim"',
  `victim' or '1'='1`,
  'victim) select 1; --',
  'a b',
  'U&"\\0061"',
  '$1',
  '%s',
  'ünï "quoted"',
  '*',
  '/* x */',
  'x\ny',
];

for (const name of evil) {
  test(`${JSON.stringify(name)} is a name and nothing else`, async (t) => {
    const run = scene().open();
    await run.query('create table if not exists victim (n int)').catch(() => undefined);
    const quoted = `"${name.replaceAll('"', '""')}"`;
    const before = await faultOf(t, run.call('db.select', { table: name }));
    t.is(before.fields['code'], '42P01');
    t.is((await faultOf(t, run.call('db.insert', { table: 'victim', data: { [name]: 1 } }))).fields['code'], '42703');
    t.is(
      (await faultOf(t, run.call('db.update', { table: 'victim', data: { [name]: 1 }, where: 'true' }))).fields['code'],
      '42703',
    );
    await run.query(`create table ${quoted} (${quoted} int)`);
    t.deepEqual(await run.call('db.insert', { table: name, data: { [name]: 1 } }), { [name]: 1 });
    t.is(await run.call('db.update', { table: name, data: { [name]: 2 }, where: `${quoted} = $1`, params: [1] }), 1);
    t.deepEqual(await run.call('db.select', { table: `public.${name}` }), [{ [name]: 2 }]);
    t.is(await run.call('db.remove', { table: name, where: 'true' }), 1);
    t.deepEqual(await run.query(`select to_regclass('victim') is not null as there`), [{ there: true }]);
    await run.close();
  });
}

test('a name that nothing can bear is refused before anything is sent', async (t) => {
  const run = scene().open();
  for (const table of ['', '.', 'a.', '.a', 'a.b.c', 'a\0b', 'x'.repeat(64), 'é'.repeat(32)]) {
    t.is((await faultOf(t, run.call('db.select', { table }))).name, 'TypeError', JSON.stringify(table));
  }
  for (const column of ['', 'a\0', 'x'.repeat(64)]) {
    t.is((await faultOf(t, run.call('db.insert', { table: 't', data: { [column]: 1 } }))).name, 'TypeError');
  }
  await run.close();
});

test('a table may be called like a type of the server, and its columns like what we call things', async (t) => {
  const run = scene().open();
  for (const table of ['point', 'line', 'path', 'date', 'money', 'name', 't', 'given']) {
    await run.query(`create table "${table}" (id int, t text, given int[])`);
    const row = { id: 1, t: 'a', given: [1] };
    t.deepEqual(await run.call('db.insert', { table, data: row }), row, table);
    t.is((await run.call('db.insert', { table: `public.${table}`, data: [row, row] })).length, 2, table);
    const change = { data: { t: 'b', given: [2, null] }, where: 'id = $1', params: [1] };
    t.is(await run.call('db.update', { table, ...change }), 3, table);
    t.deepEqual((await run.call('db.select', { table }))[2], { ...row, ...change.data }, table);
    t.is(await run.call('db.remove', { table, where: 'true' }), 3, table);
  }
  await run.close();
});

test('a view takes rows as its table does', async (t) => {
  const run = scene().open();
  await run.query('create table beneath (id int, o jsonb)');
  await run.query('create view atop as select * from beneath');
  t.deepEqual(await run.call('db.insert', { table: 'atop', data: { id: 1, o: [1] } }), { id: 1, o: [1] });
  t.is(await run.call('db.update', { table: 'atop', data: { o: { a: 1 } }, where: 'id = 1' }), 1);
  t.deepEqual(await run.call('db.select', { table: 'beneath' }), [{ id: 1, o: { a: 1 } }]);
  await run.close();
});

test('a condition is one expression: nothing can be put behind it', async (t) => {
  const run = scene().open();
  await run.query('create table guarded (n int)');
  for (const where of [
    'true); drop table guarded; --',
    'true) returning n --',
    'true; drop table guarded',
    'true returning *',
    'true) union select 1 --',
  ]) {
    for (const op of ['db.remove', 'db.select']) {
      const fault = await run.call(op, { table: 'guarded', where }).catch((error: unknown) => error);
      t.true(fault === null || typeof fault === 'number' || fault instanceof Error || Array.isArray(fault), where);
    }
  }
  t.deepEqual(await run.query(`select to_regclass('guarded') is not null as there`), [{ there: true }]);
  await run.close();
});

test('%s stands for parameters in the style of Python, %% for a percent sign', async (t) => {
  const run = scene().open();
  const percent = (sql: string, params?: unknown[]) => run.call('db.query', { style: 'percent', sql, params });
  t.deepEqual(await percent('select %s::int as a, %s::text as b, 7 %% 4 as c', [1, '%s']), [{ a: 1, b: '%s', c: 3 }]);
  t.deepEqual(await percent(`select '%s' as literal, 7 % 4 as c`), [{ literal: '%s', c: 3 }]);
  t.deepEqual(await percent(`select '%%' as literal`, []), [{ literal: '%' }]);
  t.regex((await faultOf(t, percent('select %s', []))).message, /1 placeholders \(%s\), but 0 parameters/);
  t.regex((await faultOf(t, percent('select 1', [1]))).message, /0 placeholders/);
  t.regex((await faultOf(t, percent('select %(name)s', [1]))).message, /"%\(" is no placeholder/);
  t.regex((await faultOf(t, percent(`select 'a%'`, [1]))).message, /is no placeholder/);
  t.regex((await faultOf(t, percent('select 1 %', [1]))).message, /"%" is no placeholder/);
  await run.query('create table percents (n int, t text)');
  await run.call('db.insert', { table: 'percents', data: [{ n: 1, t: 'a%' }] });
  const style = 'percent';
  const where = `n = %s and t like 'a%%'`;
  t.is((await run.call('db.select', { style, table: 'percents', where, params: [1] })).length, 1);
  t.is(await run.call('db.update', { style, table: 'percents', data: { n: 2 }, where, params: [1] }), 1);
  t.is(await run.call('db.remove', { style, table: 'percents', where: 'n = %s', params: [2] }), 1);
  await run.close();
});

test('functions of the project do not stand in for the server’s own', async (t) => {
  const run = scene().open();
  await run.query('create table shadowed (n int)');
  await run.query(`create function json_populate_recordset(anyelement, json) returns setof anyelement language sql as
    'select $1'`);
  await run.query('set search_path = public, pg_catalog');
  t.deepEqual(await run.call('db.insert', { table: 'shadowed', data: { n: 5 } }), { n: 5 });
  await run.close();
});
