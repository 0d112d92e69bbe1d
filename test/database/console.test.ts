import test from 'ava';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;

test.before('there is a project', async () => {
  scene = await openScene(platform());
});

const isSqlError = (t: Parameters<typeof isError>[0], answer: Parameters<typeof isError>[1], code: string): void =>
  isError(t, answer, 400, code);

// One after the other: a project has four connections as its owner, and who waits for one longer than 2 s is refused.
test.serial('a query answers rows, how many, their columns and the command', async (t) => {
  const { status, body } = await scene.query('select $1::int as n, $2 as word', [1, 'ä']);
  t.is(status, 200);
  t.deepEqual(body, {
    rows: [{ n: 1, word: 'ä' }],
    row_count: 1,
    columns: [
      { name: 'n', type: 'integer' },
      { name: 'word', type: 'text' },
    ],
    command: 'SELECT',
  });
});

test.serial('numbers keep all their digits on the way in and out', async (t) => {
  const sql = `select 9007199254740995::bigint as big, $1::bigint as given, $2::numeric as long,
    array[9007199254740993, null]::bigint[] as many, 'NaN'::numeric as nan, 1e400::numeric as huge`;
  const { text } = await platform().client.call('POST', `/projects/${scene.project.id}/db/query`, {
    token: scene.owner.token,
    raw: JSON.stringify({ sql, params: ['x', 'y'] }).replace(
      '"x","y"',
      '9007199254740997,0.1000000000000000055511151231257827',
    ),
  });
  t.true(text.startsWith('{"rows":[{"big":9007199254740995,"given":9007199254740997,'), text);
  t.regex(
    text,
    /"long":0\.1000000000000000055511151231257827,"many":\[9007199254740993,null\],"nan":"NaN","huge":10{400}\}/,
  );
});

test.serial(
  'times, JSON, booleans, arrays and types of the project are written as the data API writes them',
  async (t) => {
    await scene.run(`create type mood as enum ('sad', 'glad "x"')`);
    const { rows, columns } =
      await scene.run(`select timestamptz '2024-02-03 04:05:06.7+02' as at, timestamp '2024-02-03 04:05:06' as local,
    date '2024-02-03' as day, true as yes, null::int as nothing, json '{"a": 1.50}' as j, jsonb '[1, "x"]' as b,
    array['a,b', null, 'c"d'] as texts, array[[1, 2], [3, 4]] as nested, array['glad "x"', null]::mood[] as moods,
    'sad'::mood as mood, '\\x00ff'::bytea as bytes, 'x'::varchar(40) as short, 'infinity'::timestamptz as never`);
    t.deepEqual(rows, [
      {
        at: '2024-02-03T02:05:06.7+00:00',
        local: '2024-02-03T04:05:06',
        day: '2024-02-03',
        yes: true,
        nothing: null,
        j: { a: 1.5 },
        b: [1, 'x'],
        texts: ['a,b', null, 'c"d'],
        nested: [
          [1, 2],
          [3, 4],
        ],
        moods: ['glad "x"', null],
        mood: 'sad',
        bytes: '\\x00ff',
        short: 'x',
        never: 'infinity',
      },
    ]);
    const types = Object.fromEntries(
      columns.map((column: { name: string; type: string }) => [column.name, column.type]),
    );
    t.like(types, { moods: 'mood[]', mood: 'mood', short: 'character varying(40)', at: 'timestamp with time zone' });
  },
);

test.serial(
  'parameters are of every JSON type, and arrays are SQL arrays or JSON as the statement wants',
  async (t) => {
    const sql =
      'select $1::text as a, $2::bool as b, $3::int[] as c, $4::jsonb as d, $5::jsonb as e, $6::text[] as f, $7::int as g';
    const params = ["it's", false, [1, null, 3], { k: ['v'] }, [1, 'two', null], ['a"b', '{}', ''], null];
    const { rows } = await scene.run(sql, params);
    t.deepEqual(rows, [
      { a: "it's", b: false, c: [1, null, 3], d: { k: ['v'] }, e: [1, 'two', null], f: ['a"b', '{}', ''], g: null },
    ]);
  },
);

test.serial('all parameters may be exact numbers; values within them have a bound then', async (t) => {
  const all = Array.from({ length: 65_535 }, () => 0.5);
  isError(t, await scene.query('select 1', all), 400, '08P01');
  const numbers = Array.from({ length: 100_000 }, () => 1);
  t.deepEqual(await scene.run('select sum(n)::int as sum from unnest($1::int[]) n', [numbers]).then((b) => b.rows), [
    { sum: 100_000 },
  ]);
  const refused = await scene.query('select 1 from unnest($1::float8[]) n', [[...numbers, 0.5]]);
  isError(t, refused, 400, 'validation_failed');
  t.regex(refused.body.message, /more than 70000 values/);
});

test.serial('columns of one name get numbers', async (t) => {
  const many = await scene.run(
    `select ${Array.from({ length: 1663 }, (_, index) => `${index} as a`).join()}, 0 as a_3`,
  );
  const { rows, columns } = await scene.run('select 1 as a, 2 as a, 3 as a_2, 4 as a');
  t.like(many.rows[0], { a: 0, a_2: 1, a_3: 0, a_4: 2, a_1664: 1662 });
  t.is(Object.keys(many.rows[0]).length, 1664);
  t.deepEqual(rows, [{ a: 1, a_2: 3, a_3: 2, a_4: 4 }]);
  t.deepEqual(columns.map((column: { name: string }) => column.name).toSorted(), ['a', 'a_2', 'a_3', 'a_4']);
});

test.serial('row_count of a change is what was changed, and the next request sees it', async (t) => {
  t.like(await scene.run('create table counted (n int)'), {
    rows: [],
    row_count: 0,
    command: 'CREATE TABLE',
    columns: [],
  });
  t.like(await scene.run('insert into counted select generate_series(1, 7)'), {
    rows: [],
    row_count: 7,
    command: 'INSERT',
  });
  t.like(await scene.run('update counted set n = n + 1 where n > 5 returning n'), {
    rows: [{ n: 7 }, { n: 8 }],
    row_count: 2,
  });
  t.like(await scene.run('delete from counted'), { row_count: 7, command: 'DELETE' });
});

test.serial('an error has its SQLSTATE, its place in line and column, and what the server knows', async (t) => {
  const wrong = await scene.query("select 1,\n  'ä', nope");
  isSqlError(t, wrong, '42703');
  t.deepEqual(wrong.body.details, { position: 18, line: 2, column: 8 });
  await scene.run('create table strict (n int constraint positive check (n > 0), u int unique)');
  const refused = await scene.query('insert into strict values (-1)');
  isSqlError(t, refused, '23514');
  t.like(refused.body.details, { table: 'strict', constraint: 'positive', schema: 'public' });
  await scene.run('insert into strict values (1, 1)');
  const twice = await scene.query('insert into strict values (1, 1)');
  isSqlError(t, twice, '23505');
  t.regex(twice.body.details.detail, /\(u\)=\(1\)/);
});

for (const [what, sql, params, code] of [
  ['a syntax error', 'selec 1', [], '42601'],
  ['several statements', 'select 1; select 2', [], '42601'],
  ['several statements behind a backslash', `select '\\'; drop table x; --'; select 2`, [], '42601'],
  ['nothing', '  ;; -- nothing', [], '42601'],
  ['an unknown table', 'select * from nowhere', [], '42P01'],
  ['a division by zero', 'select 1/$1::int', [0], '22012'],
  ['too few parameters', 'select $1::int, $2::int', [1], '08P01'],
  ['too many parameters', 'select $1::int', [1, 2], '08P01'],
  ['a parameter without a type', 'select $1 is null', [null], '42P18'],
  ['a parameter that does not fit', 'select $1::int', ['x'], '22P02'],
  ['a parameter with NUL', 'select $1::text', ['\u0000'], '22021'],
  ['COPY from nobody', 'copy pg_class from stdin', [], '0A000'],
  ['COPY to nobody', '/* a /* b */ */ (copy) pg_class to stdout', [], '0A000'],
  ['BEGIN', ' -- now\nBEGIN', [], '0A000'],
  ['COMMIT', 'commit', [], '0A000'],
  ['a savepoint', 'savepoint a', [], '0A000'],
  ['PREPARE TRANSACTION', `prepare transaction 'x'`, [], '0A000'],
  ['a program', `create table p (t text); copy p from program 'id'`, [], '42601'],
  ['a file', `select pg_read_file('/etc/passwd')`, [], '42501'],
] as const) {
  test.serial(`${what} is refused with ${code}`, async (t) => {
    isSqlError(t, await scene.query(sql, params), code);
  });
}

test.serial('an error of the body is the platform’s', async (t) => {
  for (const body of [
    {},
    { sql: '' },
    { sql: 1 },
    { sql: 'select 1', params: {} },
    { sql: 'select 1', param: [] },
    { sql: 'a\u0000b' },
  ]) {
    isError(t, await scene.call('POST', '/query', body), 400, 'validation_failed');
  }
  const raw = `{"sql":"select $1::text","params":[${'['.repeat(30_000)}${']'.repeat(30_000)}]}`;
  const answer = await platform().client.call('POST', `/projects/${scene.project.id}/db/query`, {
    token: scene.owner.token,
    raw,
  });
  t.is(answer.status, 400, answer.text);
});

test.serial('of more than 10,000 rows the first 10,000 come back', async (t) => {
  const all = await scene.run('select generate_series(1, 10000) as n');
  t.is(all.rows.length, 10_000);
  t.is(all.row_count, 10_000);
  t.false('truncated' in all);
  const more = await scene.run('select generate_series(1, 10001) as n');
  t.is(more.rows.at(-1).n, 10_000);
  t.like(more, { row_count: 10_000, truncated: true });
});

test.serial('what is changed is changed whole, also when more rows come back than are taken', async (t) => {
  await scene.run('create table many (n int)');
  const answer = await scene.run('insert into many select generate_series(1, 25000) returning n');
  t.is(answer.rows.length, 10_000);
  t.true(answer.truncated);
  t.deepEqual((await scene.run('select count(*)::int as n from many')).rows, [{ n: 25_000 }]);
  const wide = await scene.run(`with x as (update many set n = n returning n) select n, repeat('x', 3000) from x`);
  t.true(wide.truncated);
  t.true(wide.rows.length < 10_000);
});

test.serial('one value of 100 MB is not taken, and the next query works', async (t) => {
  t.like(await scene.run(`select repeat('x', 100000000) as x`), { rows: [], row_count: 0, truncated: true });
  await scene.run('create table large (x text)');
  const refused = await scene.query(`insert into large select repeat('x', 100000000) returning x`);
  isSqlError(t, refused, '54000');
  t.deepEqual((await scene.run('select count(*)::int as n from large')).rows, [{ n: 0 }]);
});

test.serial('nothing of a session outlives its query', async (t) => {
  await scene.run(`set search_path = 'nowhere'`);
  await scene.run('create temporary table fleeting (n int)');
  await scene.run('select pg_advisory_lock(4711)');
  await scene.run('prepare kept as select 1');
  const { rows } =
    await scene.run(`select current_setting('search_path') as path, to_regclass('pg_temp.fleeting') as temp,
    (select count(*)::int from pg_prepared_statements where name = 'kept') as kept, pg_try_advisory_lock(4711) as free`);
  t.not(rows[0].path, 'nowhere');
  t.like(rows[0], { temp: null, kept: 0, free: true });
});

test.serial('a procedure may commit, and what cannot be in a transaction works', async (t) => {
  await scene.run('create table steps (n int)');
  isSqlError(t, await scene.query('do $$ begin insert into steps values (1); commit; perform 1/0; end $$'), '22012');
  t.deepEqual((await scene.run('select n from steps')).rows, [{ n: 1 }]);
  t.is((await scene.run('create index concurrently on steps (n)')).command, 'CREATE INDEX');
  t.is((await scene.run('vacuum steps')).command, 'VACUUM');
});

test.serial('a constraint that is checked at the end refuses the statement', async (t) => {
  await scene.run('create table late (n int unique deferrable initially deferred)');
  isSqlError(t, await scene.query('insert into late values (1), (1) returning n'), '23505');
  t.deepEqual((await scene.run('select * from late')).rows, []);
});

test.serial('a viewer reads', async (t) => {
  await scene.run('create table seen as select 1 as n');
  const { status, body } = await scene.query('select n from seen', [], scene.viewer);
  t.is(status, 200);
  t.deepEqual(body.rows, [{ n: 1 }]);
});

for (const [sql, code] of [
  ['insert into pg_class default values', /^42501|25006$/],
  ['create table mine (n int)', /^42501|25006$/],
  ['create temporary table mine (n int)', /^42501|25006$/],
  ['do $$ begin commit; create table mine (n int); end $$', /^2D000$/],
  ['commit', /^0A000$/],
  ['set role none', null],
  [`select set_config('transaction_read_only', 'off', false)`, null],
  [`select lo_create(0)`, /^42501|25006$/],
] as const) {
  test.serial(`a viewer changes nothing by ${sql}`, async (t) => {
    const answer = await scene.query(sql, [], scene.viewer);
    if (code === null) t.true([200, 400].includes(answer.status));
    else {
      t.is(answer.status, 400, answer.text);
      t.regex(answer.body.code, code);
    }
    isSqlError(t, await scene.query(`select * from mine`), '42P01');
  });
}

const runsInDatabase = async (text: string): Promise<boolean> => {
  const sql = `select from pg_stat_activity where datname = $1 and position($2 in query) > 0 and state = 'active'`;
  return (await platform().db.query(sql, [scene.project.dbName, text])).length > 0;
};

test.serial('a query whose client goes away is cancelled', async (t) => {
  const leave = new AbortController();
  const url = `${platform().base}/projects/${scene.project.id}/db/query`;
  const headers = { authorization: `Bearer ${scene.owner.token}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ sql: 'select pg_sleep(3611)' });
  const requested = fetch(url, { method: 'POST', headers, body, signal: leave.signal });
  await until(() => runsInDatabase('pg_sleep(3611)'));
  leave.abort();
  await t.throwsAsync(requested);
  await until(async () => !(await runsInDatabase('pg_sleep(3611)')));
});

test.serial('a statement that ends its own session is told that the connection broke', async (t) => {
  const answer = await scene.query('select pg_terminate_backend(pg_backend_pid())');
  t.true(answer.status === 400 || answer.status === 503, answer.text);
  t.is((await scene.query('select 1')).status, 200);
});
