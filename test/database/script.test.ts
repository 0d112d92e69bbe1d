import test from 'ava';
import { type CopiedRows, readCopied } from '#domain/database/script/copied-rows.ts';
import { splitScript } from '#domain/database/script/split.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });

const open = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  const post = (path: string, body: unknown, token = user.token) =>
    platform().client.call('POST', `/projects/${project.id}/db/${path}`, { token, body });
  return {
    user,
    project,
    post,
    run: (sql: string, fields: Readonly<Record<string, unknown>> = {}) => post('script', { sql, ...fields }),
    query: async (sql: string) => (await post('query', { sql })).body.rows,
  };
};

/** Without the pauses between them. */
const statementsOf = (script: string) => [...splitScript(script)].filter((statement) => statement !== null);

const textsOf = (script: string): string[] => statementsOf(script).map(({ sql }) => sql);

const copiedOf = async (text: string, sql = 'copy t from stdin'): Promise<CopiedRows[]> => {
  const batches: CopiedRows[] = [];
  for await (const batch of readCopied(sql, text)) batches.push(batch);
  return batches;
};

test('a script is divided at its semicolons, and nowhere else', (t) => {
  t.deepEqual(textsOf('select 1; select 2'), ['select 1', 'select 2']);
  t.deepEqual(textsOf(`select ';', E'\\';', "a;b"; -- x;\nselect /* ; /* ; */ ; */ 2;`), [
    `select ';', E'\\';', "a;b"`,
    `-- x;\nselect /* ; /* ; */ ; */ 2`,
  ]);
  t.deepEqual(textsOf('do $$ begin perform 1; end $$; select $a$;$a$'), [
    'do $$ begin perform 1; end $$',
    'select $a$;$a$',
  ]);
  t.deepEqual(
    textsOf('create function f() returns int begin atomic select case when true then 1; end; end; select 1').length,
    2,
  );
  t.deepEqual(textsOf('create rule r as on insert to t do (select 1; select 2); select 3').length, 2);
  t.deepEqual(textsOf(' ;; -- nothing\n ; /* x */ '), []);
  t.deepEqual(textsOf("select 'never ends; "), ["select 'never ends;"]);
  t.deepEqual(textsOf("select 'a\\'; select 2"), ["select 'a\\'", 'select 2']);
});

test('lines after COPY belong to it', (t) => {
  const [first, second] = statementsOf('copy t (a) from stdin;\n1;\n2\n\\.\nselect 1;');
  t.is(first?.copied?.text, '1;\n2\n');
  t.is(second?.sql, 'select 1');
  const dumped = '--\n-- Data for t; of pg_dump\n--\n\n/* a /* b */ */ COPY t (a) FROM stdin;\n1\n\\.\n';
  const [only] = statementsOf(dumped);
  t.is(only?.copied?.text, '1\n');
  t.is(only?.sql, 'COPY t (a) FROM stdin');
  t.is(dumped.slice(only?.at, (only?.at ?? 0) + 4), 'COPY');
});

test('a script is read once through, whatever stands in it', async (t) => {
  const [spaces, long] = [' '.repeat(2_000_000), 'a'.repeat(1_000_000)];
  const [copy] = statementsOf(`copy t${spaces}(a)from${spaces}stdin;\n1\n\\.\n`);
  t.is(copy?.copied?.text, '1\n');
  t.deepEqual(await copiedOf('1\n', copy?.sql), [{ target: `t${spaces}(a)`, rows: [['1']] }]);
  t.is(textsOf(`copy t${spaces}; select 1`).length, 2);
  t.is(textsOf(`create ${long} b c d e f g ${'x '.repeat(1_000_000)}; select 1`).length, 2);
});

test('a script is read in parts, also where it has no statement', (t) => {
  const parts = [
    ';'.repeat(1_000_000),
    '('.repeat(1_000_000),
    '/*'.repeat(500_000),
    '-- x\n'.repeat(200_000),
    `E'${String.raw`\'`.repeat(500_000)}'`,
    `copy t from stdin;${'\n'.repeat(1_000_000)}`,
  ];
  for (const part of parts) {
    const pauses = [...splitScript(part)].filter((one) => one === null).length;
    t.true(pauses > 100, `${part.slice(0, 20)} ${pauses}`);
  }
});

test('copied rows are read some at a time', async (t) => {
  const many = await copiedOf('\n'.repeat(2500));
  t.deepEqual(
    many.map(({ rows }) => rows.length),
    [1000, 1000, 500],
  );
  const long = await copiedOf(`${'x'.repeat(600_000)}\n`.repeat(3));
  t.deepEqual(
    long.map(({ rows }) => rows.length),
    [2, 1],
  );
  t.deepEqual(await copiedOf(''), []);
  t.deepEqual(
    (await copiedOf('a\tb\r\n\\N\t\r\n')).map(({ rows }) => rows),
    [
      [
        ['a', 'b'],
        [null, ''],
      ],
    ],
  );
});

test('an escape is read wherever it stands in a long value, and a row has no more values than a table has columns', async (t) => {
  for (const before of [0, 1, 4094, 4095, 4096]) {
    const [batch] = await copiedOf(`${'x'.repeat(before)}${String.raw`\x41\101\\\n\q`}\\\n`);
    t.is(batch?.rows[0]?.[0], `${'x'.repeat(before)}AA\\\nq\\`);
  }
  const [escapes] = await copiedOf(String.raw`\\`.repeat(1_000_000));
  t.is(escapes?.rows[0]?.[0]?.length, 1_000_000);
  await t.throwsAsync(copiedOf('\t'.repeat(1600)), { code: '22P04', message: /more than 1600 values/ });
  await t.throwsAsync(copiedOf('1\n1\t2\n'), { code: '22P04', message: /^Row 2 .* has 2 values, the first has 1/ });
});

test('a text in a script may be as long as the script', (t) => {
  const long = 'a'.repeat(20_000_000);
  for (const quoted of [`'${long}'`, `E'${long}\\''`, `"${long}"`, `'${"''".repeat(10_000_000)}'`]) {
    t.deepEqual(
      textsOf(`select ${quoted}; select 2`).map(({ length }) => length),
      [7 + quoted.length, 8],
    );
  }
});

test('all statements run in one transaction, and each says what it did', async (t) => {
  const { run, query } = await open();
  const answer = await run(`create table rooms (number bigint primary key, name text);
    insert into rooms values (1, 'one'), (9007199254740993, null);
    select * from rooms order by number; update rooms set name = 'x' returning number;`);
  t.is(answer.status, 200, answer.text);
  const { statements } = answer.body;
  t.deepEqual(
    statements.map(({ command, row_count: count }: { command: string; row_count: number }) => [command, count]),
    [
      ['CREATE TABLE', 0],
      ['INSERT', 2],
      ['SELECT', 2],
      ['UPDATE', 2],
    ],
  );
  t.true(answer.text.includes('9007199254740993'), 'numbers are exact');
  t.deepEqual(statements[2].fields, [
    { name: 'number', type: 'bigint' },
    { name: 'name', type: 'text' },
  ]);
  t.is((await query('select count(*)::int as n from rooms'))[0].n, 2);
});

test('when one fails nothing is kept, and the answer says which and where', async (t) => {
  const { run, query } = await open();
  const sql = `create table rooms (n int); -- 🛏\ninsert into rooms values (1);\nselect nope\n  from rooms;`;
  const answer = await run(sql);
  t.is(answer.status, 400);
  t.is(answer.body.code, '42703');
  t.like(answer.body.details, {
    statement: 3,
    line: 3,
    position: Array.from(sql.slice(0, sql.indexOf('nope'))).length + 1,
  });
  t.deepEqual(await query(`select 1 as found from pg_tables where tablename = 'rooms'`), []);
});

test('a dry run keeps nothing, and finds what a commit would', async (t) => {
  const { run, query } = await open();
  const good = await run('create table rooms (n int); insert into rooms values (1);', { dry_run: true });
  t.is(good.body.dry_run, true);
  t.is(good.body.statements.length, 2);
  t.deepEqual(await query(`select 1 as found from pg_tables where tablename = 'rooms'`), []);
  await query('create table parents (id int primary key)');
  const bad = await run(
    'create table children (p int references parents deferrable initially deferred); insert into children values (1);',
    { dry_run: true },
  );
  t.is(bad.body.code, '23503');
  t.is((await run('select 1', { dry_run: 'yes' })).status, 400);
});

test('a script cannot end its transaction', async (t) => {
  const { run, query } = await open();
  const attempts = [
    'begin',
    'commit',
    'rollback',
    'savepoint x',
    '/* x */ commit',
    'prepare transaction $$x$$',
    'do $$ begin commit; end $$',
    `set standard_conforming_strings = off; select '\\''; commit; --'`,
    'create procedure p() language plpgsql as $$ begin commit; end $$; call p()',
  ];
  for (const attempt of attempts) {
    const answer = await run(`create table kept (n int); ${attempt}; select 1/0;`);
    t.is(answer.status, 400, attempt);
    t.deepEqual(await query(`select 1 as found from pg_tables where tablename = 'kept'`), [], attempt);
  }
});

test('the data of COPY are inserted as pg_dump wrote them', async (t) => {
  const { run, query } = await open();
  const answer = await run(
    [
      'create table public.guests (id int generated always as identity primary key, name text, note text);',
      'COPY public.guests (id, name, note) FROM stdin;',
      String.raw`7	Ada	\N`,
      String.raw`8	Gr\tace;	two\nlines \\ end`,
      '\\.',
      '',
      "select pg_catalog.setval('public.guests_id_seq', 8, true);",
    ].join('\n'),
  );
  t.is(answer.status, 200, answer.text);
  t.like(answer.body.statements[1], { command: 'COPY', row_count: 2 });
  t.deepEqual(await query('select * from guests order by id'), [
    { id: 7, name: 'Ada', note: null },
    { id: 8, name: 'Gr\tace;', note: 'two\nlines \\ end' },
  ]);
  const torn = await run('copy guests (id, name) from stdin;\n1\tx\n2\n\\.\n');
  t.is(torn.body.code, '22P04');
  t.is((await run('copy guests from stdin with (format csv);\n1\n\\.\n')).body.code, '0A000');
});

test('many rows are cut, and many statements are not', async (t) => {
  const { run } = await open();
  const rows = (await run('select g from generate_series(1, 5000) g')).body.statements[0];
  t.is(rows.rows.length, 1000);
  t.true(rows.truncated);
  const many = await run(
    `create table t (n int);${'insert into t values (1);'.repeat(2000)}select count(*)::int as n from t;`,
  );
  t.is(many.body.statements.at(-1).rows[0].n, 2000);
});

test('columns of all statements have room for 16 MB', async (t) => {
  const { run } = await open();
  const columns = Array.from({ length: 1600 }, (_, index) => `1 as ${'x'.repeat(58)}_${index}`).join();
  const long = `select repeat('x', 1000000) as x from generate_series(1, 16);`;
  const { statements } = (await run(`${long}${`select ${columns};`.repeat(6)}`)).body;
  t.is(statements.length, 7);
  t.is(statements[0].rows.length, 16);
  t.is(statements[1].fields.length, 1600);
  t.deepEqual(statements.at(-1), { command: 'SELECT', row_count: 1, fields: [], rows: [], truncated: true });
});

test('a viewer and a stranger run no scripts', async (t) => {
  const { post, project } = await open();
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const stranger = await platform().client.signUp();
  t.is((await post('script', { sql: 'select 1' }, viewer.token)).status, 403);
  t.is((await post('script', { sql: 'select 1' }, stranger.token)).status, 404);
});
