import test from 'ava';
import { faultOf, useDatabaseService } from './scene.ts';

const scene = useDatabaseService(test);

const types: readonly (readonly [sql: string, json: string])[] = [
  ['42::int2', '42'],
  ['(-2147483648)::int4', '-2147483648'],
  ['9007199254740991::int8', '9007199254740991'],
  ['9007199254740992::int8', '"9007199254740992"'],
  ['(-9223372036854775808)::int8', '"-9223372036854775808"'],
  ['12.50::numeric', '"12.50"'],
  [`'NaN'::numeric`, '"NaN"'],
  ['0.1::float8', '0.1'],
  ['1e300::float8', '1e+300'],
  [`'-0'::float8`, '-0'],
  [`'NaN'::float8`, '"NaN"'],
  [`'-Infinity'::float4`, '"-Infinity"'],
  ['true', 'true'],
  ['false', 'false'],
  ['null::text', 'null'],
  [`''`, '""'],
  [`E'a"\\\\\\n\\u20ac'`, JSON.stringify('a"\\\n€')],
  [`'{"a": [1, 12345678901234567890.5], "b": null}'::json`, '{"a": [1, 12345678901234567890.5], "b": null}'],
  [`'{"b":1e400}'::jsonb`, `{"b": 1${'0'.repeat(400)}}`],
  [`'null'::jsonb`, 'null'],
  [`'2024-02-29 13:14:15.123456+00'::timestamptz`, '"2024-02-29T13:14:15.123456+00:00"'],
  [`'2024-02-29 13:14:15'::timestamp`, '"2024-02-29T13:14:15"'],
  [`'infinity'::timestamptz`, '"infinity"'],
  [`'0044-03-15 12:00:00 BC'::timestamp`, '"0044-03-15T12:00:00 BC"'],
  [`'2024-02-29'::date`, '"2024-02-29"'],
  [`'13:14'::time`, '"13:14:00"'],
  [`'1 day 02:00'::interval`, '"1 day 02:00:00"'],
  [`'\\x00ff'::bytea`, '"\\\\x00ff"'],
  [`'00000000-0000-0000-0000-000000000001'::uuid`, '"00000000-0000-0000-0000-000000000001"'],
  ['array[1,null,3]', '[1,null,3]'],
  ['array[[1,2],[3,4]]', '[[1,2],[3,4]]'],
  [`'{}'::int[]`, '[]'],
  [`'[0:1]={7,8}'::int[]`, '[7,8]'],
  [`array['a,b','"','\\','NULL',null,'','{}']`, JSON.stringify(['a,b', '"', '\\', 'NULL', null, '', '{}'])],
  [`array['{"a":"x,}"}','[1]']::jsonb[]`, '[{"a": "x,}"},[1]]'],
  [`array[9007199254740993]::int8[]`, '["9007199254740993"]'],
  [`array['2024-02-29 13:14:15+00'::timestamptz]`, '["2024-02-29T13:14:15+00:00"]'],
  [`'(1,2)'::point`, '"(1,2)"'],
  [`row(1,'a')`, '"(1,a)"'],
];

for (const [sql, json] of types) {
  test(`${sql} is answered as ${json.slice(0, 60)}`, async (t) => {
    const run = scene().open();
    t.is(await run.text('db.query', { sql: `select ${sql} as v` }), `[{"v":${json}}]`);
    await run.close();
  });
}

test('time stamps are what to_json says, whatever the zone', async (t) => {
  const run = scene().open();
  for (const zone of ['UTC', 'Asia/Kolkata', 'America/St_Johns', 'Europe/Berlin', '-00:30']) {
    await run.query(`set time zone '${zone}'`);
    const [row] = await run.query(
      `select s as v, to_json(s) #>> '{}' as j from (select '2024-07-01 01:02:03.4+00'::timestamptz as s) x`,
    );
    t.is(row.v, row.j, zone);
  }
  await run.close();
});

test('arrays of the database’s own types are arrays, its other types are text', async (t) => {
  const run = scene().open();
  await run.query(`create type mood as enum ('sad', 'so, so')`);
  await run.query(`create domain short as text`);
  await run.query('create type pair as (a int, b text)');
  const sql = `select array['sad','so, so']::mood[] as m, 'sad'::mood as one, array['x']::short[] as d,
    array['x']::short[] as again, row(1, 'b')::pair as p, 'x'::short as s`;
  const expected = [{ m: ['sad', 'so, so'], one: 'sad', d: ['x'], again: ['x'], p: '(1,b)', s: 'x' }];
  t.deepEqual(await run.query(sql), expected);
  t.deepEqual(await run.query(sql), expected);
  await run.close();
});

test('columns may be called anything', async (t) => {
  const run = scene().open();
  const text = await run.text('db.query', {
    sql: `select 1 as "__proto__", 2 as "a""b", 3 as "toString", 4 as "\u20ac"`,
  });
  t.is(text, '[{"__proto__":1,"a\\"b":2,"toString":3,"€":4}]');
  await run.close();
});

test('parameters arrive as what the statement expects', async (t) => {
  const run = scene().open();
  const [row] = await run.query(
    `select $1::int as i, $2::text as t, $3::bool as b, $4::jsonb as o, $5::int[] as a, $6::jsonb as ja, $7::text[] as ta,
       $8::numeric as n, $9::jsonb[] as jaa, $10::text as nothing`,
    [1, `'"\\`, true, { a: [1, 'x'] }, [1, null, 2], [1, { b: 2 }], ['a,"\\', 'NULL', null], 1.5, [{ a: 1 }], null],
  );
  t.deepEqual(row, {
    i: 1,
    t: `'"\\`,
    b: true,
    o: { a: [1, 'x'] },
    a: [1, null, 2],
    ja: [1, { b: 2 }],
    ta: ['a,"\\', 'NULL', null],
    n: '1.5',
    jaa: [{ a: 1 }],
    nothing: null,
  });
  t.deepEqual(await run.query('select n from generate_series(1, 9) n where n = any($1)', [[2, 7]]), [
    { n: 2 },
    { n: 7 },
  ]);
  await run.close();
});

test('an array as a parameter of a statement that is wrong says why, and the run goes on', async (t) => {
  const run = scene().open();
  t.is((await faultOf(t, run.query('selec $1', [[1]]))).fields['code'], '42601');
  t.is((await faultOf(t, run.query('select $1::int', [[1]]))).fields['code'], '22P02');
  t.is((await faultOf(t, run.query('select $1, $2', [[1]]))).fields['code'], '08P01');
  t.deepEqual(await run.query('select $1::int[] as a', [[1]]), [{ a: [1] }]);
  await run.close();
});

test('whole numbers that JavaScript cannot hold keep their digits on the way in', async (t) => {
  const run = scene().open();
  const text =
    '{"sql":"select $1::numeric as n, $2::jsonb as j","params":[123456789012345678901234567890,{"a":1e400}]}';
  t.is(await run.raw('db.query', text), `[{"n":"123456789012345678901234567890","j":{"a": 1${'0'.repeat(400)}}}]`);
  await run.close();
});

test('params that are nested without end are refused, and the worker goes on', async (t) => {
  const run = scene().open();
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
  const fault = await faultOf(t, run.raw('db.query', `{"sql":"select $1::text","params":[${deep}]}`));
  t.is(fault.name, 'TypeError');
  t.deepEqual(await run.query('select 1 as one'), [{ one: 1 }]);
  await run.close();
});
