import test from 'ava';
import { isError } from '#test/support/is-error.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { until } from '#test/support/until.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;

test.before('there is a project', async () => {
  scene = await openScene(platform());
});

const at = (table: string, rest = ''): string => `/tables/${encodeURIComponent(table)}${rest}`;

// One after the other: a project has four connections as its owner, and who waits for one longer than 2 s is refused.
test.serial('a table is made, listed, described, filled and dropped', async (t) => {
  const columns = [
    { name: 'id', type: 'bigserial', primary_key: true },
    { name: 'title', type: 'varchar(40)', nullable: false, default: `'it''s; (' || 'x'` },
    { name: 'price', type: 'numeric(10, 2)' },
    { name: 'tags', type: 'text[]', default: `array['a']::text[]` },
    { name: 'at', type: 'timestamp(3) with time zone', default: 'now()' },
  ];
  const made = await scene.call('POST', '/tables', { name: 'books', columns });
  t.is(made.status, 201, made.text);
  t.is(made.body.name, 'books');
  const expected = [
    { name: 'id', type: 'bigint', nullable: false, primary_key: true, default: `nextval('books_id_seq'::regclass)` },
    { name: 'title', type: 'character varying(40)', nullable: false, primary_key: false },
    { name: 'price', type: 'numeric(10,2)', nullable: true, default: null },
    { name: 'tags', type: 'text[]', nullable: true },
    { name: 'at', type: 'timestamp(3) with time zone', default: 'now()' },
  ];
  expected.forEach((column, index) => t.like(made.body.columns[index], column));
  await scene.run('insert into books (price) values (1.10), (2.20)');
  const { body: tables } = await scene.call('GET', '/tables');
  t.deepEqual(
    tables.find(({ name }: { name: string }) => name === 'books'),
    { name: 'books', columns: 5, rows: 2 },
  );
  t.deepEqual((await scene.run('select title from books limit 1')).rows, [{ title: `it's; (x` }]);
  t.is((await scene.call('DELETE', at('books'))).status, 204);
  isError(t, await scene.call('GET', at('books', '/schema')), 404, 'not_found');
});

for (const name of [
  'tables',
  'query',
  'select',
  'Ünïcode 表',
  'a"b',
  `it's`,
  'a.b',
  'a/b',
  '100%',
  'a?b#c',
  'x'.repeat(63),
]) {
  test.serial(`a table and its column may be called ${name}`, async (t) => {
    const made = await scene.call('POST', '/tables', { name, columns: [{ name, type: 'int', primary_key: true }] });
    t.is(made.status, 201, made.text);
    t.is(
      (await scene.call('POST', at(name, '/columns'), { name: `${name.slice(0, 40)} 2`, type: 'text' })).status,
      201,
    );
    const { body } = await scene.call('GET', at(name, '/schema'));
    t.like(body, { name, kind: 'table', primary_key: [name] });
    const quoted = `"${name.replaceAll('"', '""')}"`;
    await scene.run(`insert into ${quoted} values ($1, $2)`, [1, 'x']);
    const order = `"${name.replaceAll('"', '""')}".desc`;
    const rows = await scene.call('GET', `/${encodeURIComponent(name)}/rows?order=${encodeURIComponent(order)}`);
    t.deepEqual(rows.body, [{ [name]: 1, [`${name.slice(0, 40)} 2`]: 'x' }], rows.text);
    t.is((await scene.call('DELETE', at(name, `/columns/${encodeURIComponent(name)}`))).status, 204);
    t.is((await scene.call('DELETE', at(name))).status, 204);
  });
}

const column = (fields: object) => ({ name: 'fresh', columns: [{ name: 'a', type: 'int', ...fields }] });

for (const [what, body, path] of [
  ['no name', { columns: [] }, 'name'],
  ['an empty name', { name: '', columns: [] }, 'name'],
  ['a name with NUL', { name: 'a\u0000', columns: [] }, 'name'],
  ['a name of 64 bytes', { name: 'ä'.repeat(32), columns: [] }, 'name'],
  ['no columns', { name: 'fresh' }, 'columns'],
  ['an unknown field', { name: 'fresh', columns: [], schema: 'x' }, ''],
  ['a column name of 64 bytes', column({ name: 'ä'.repeat(32) }), 'columns.0.name'],
  ['an unknown type', column({ type: 'intt' }), 'columns.0.type'],
  ['two types', column({ type: 'int, b int' }), 'columns.0.type'],
  ['a type and a constraint', column({ type: 'int primary key' }), 'columns.0.type'],
  ['a type that ends the statement', column({ type: 'int); drop table x; --' }), 'columns.0.type'],
  ['a type with a comment', column({ type: 'int --' }), 'columns.0.type'],
  ['a type that is a number', column({ type: '23' }), 'columns.0.type'],
  ['a set of a type', column({ type: 'setof int' }), 'columns.0.type'],
  ['an impossible modifier', column({ type: 'varchar(-1)' }), 'columns.0.type'],
  ['a default that ends its parentheses', column({ default: '1), b int default (2' }), 'columns.0.default'],
  ['a default with an open quote', column({ default: `'x` }), 'columns.0.default'],
  ['a default with an open dollar quote', column({ default: '$a$ ) $b$' }), 'columns.0.default'],
  ['a default with a comment', column({ default: '1 --' }), 'columns.0.default'],
  ['a default of two statements', column({ default: '1; select 2' }), 'columns.0.default'],
  ['a blank default', column({ default: ' ' }), 'columns.0.default'],
  ['a default that is no text', column({ default: 1 }), 'columns.0.default'],
] as const) {
  test.serial(`a table with ${what} is refused, and the answer says where`, async (t) => {
    const answer = await scene.call('POST', '/tables', body);
    isError(t, answer, 400, 'validation_failed');
    t.is(answer.body.details[0].path, path, answer.text);
  });
}

for (const [what, fields, code] of [
  ['a default that does not fit', { default: `'x'` }, '22P02'],
  ['a default without quotes', { type: 'text', default: 'hello' }, '0A000'],
  ['a default of nonsense', { default: '1 +' }, '42601'],
  ['a pseudo type', { type: 'anyelement' }, '42P16'],
  ['the name of a system column', { name: 'ctid' }, '42701'],
] as const) {
  test.serial(`a table with ${what} is refused in the server’s words`, async (t) => {
    const answer = await scene.call('POST', '/tables', column(fields));
    t.true(answer.status === 400 || answer.status === 409, answer.text);
    if (answer.status === 400) isError(t, answer, 400, code);
  });
}

test.serial('quotes of every kind may stand in a default', async (t) => {
  const expressions = [`$a$ ) ; -- $a$`, `E'\\') ; '`, `'/*' || '--'`, `(array[1, 2])[1]::text`, `U&'\\0041'`];
  const columns = expressions.map((expression, index) => ({ name: `c${index}`, type: 'text', default: expression }));
  const made = await scene.call('POST', '/tables', { name: 'quotes', columns });
  t.is(made.status, 201, made.text);
  await scene.run('insert into quotes default values');
  t.deepEqual((await scene.run('select * from quotes')).rows, [
    { c0: ' ) ; -- ', c1: `') ; `, c2: '/*--', c3: '1', c4: 'A' },
  ]);
});

test.serial('a name that is taken is a conflict', async (t) => {
  await scene.run('create table taken (a int)');
  await scene.run('create view taken_view as select 1 as a');
  for (const name of ['taken', 'taken_view']) {
    isError(t, await scene.call('POST', '/tables', { name, columns: [] }), 409, 'conflict');
  }
  isError(t, await scene.call('POST', at('taken', '/columns'), { name: 'a', type: 'int' }), 409, 'conflict');
  const twice = {
    name: 'twice',
    columns: [
      { name: 'a', type: 'int' },
      { name: 'a', type: 'text' },
    ],
  };
  t.is((await scene.call('POST', '/tables', twice)).body.details[0].path, 'columns.1.name');
});

test.serial('what is not there is 404, and the hint names what is near', async (t) => {
  await scene.run('create table customers (id int primary key, email text)');
  const schema = await scene.call('GET', at('custmers', '/schema'));
  isError(t, schema, 404, 'not_found');
  t.regex(schema.body.hint, /"customers"/);
  const dropped = await scene.call('DELETE', at('customers', '/columns/emial'));
  isError(t, dropped, 404, 'not_found');
  t.regex(dropped.body.hint, /"email"/);
  isError(t, await scene.call('POST', at('custmers', '/columns'), { name: 'a', type: 'int' }), 404, 'not_found');
  isError(t, await scene.call('GET', '/custmers/rows'), 404, 'not_found');
  isError(t, await scene.call('DELETE', at('pg_class')), 404, 'not_found');
});

test.serial('what others depend on is dropped with cascade only', async (t) => {
  await scene.run('create table parent (id int primary key, extra int)');
  await scene.run('create view on_parent as select id, extra from parent');
  isError(t, await scene.call('DELETE', at('parent')), 409, 'conflict');
  isError(t, await scene.call('DELETE', at('parent', '/columns/extra')), 409, 'conflict');
  t.is((await scene.call('DELETE', at('parent', '/columns/extra?cascade=true'))).status, 204);
  t.is((await scene.call('DELETE', at('parent', '?cascade=true'))).status, 204);
  isError(t, await scene.call('DELETE', at('parent', '?cascade=yes')), 400, 'validation_failed');
});

test.serial('a column that cannot be filled is refused, and so is a view as a table', async (t) => {
  await scene.run('create table filled as select 1 as n');
  await scene.run('create view seen as select * from filled');
  const needed = { name: 'm', type: 'int', nullable: false };
  isError(t, await scene.call('POST', at('filled', '/columns'), needed), 400, '23502');
  t.is((await scene.call('POST', at('filled', '/columns'), { ...needed, default: '7' })).status, 201);
  t.deepEqual((await scene.call('GET', '/filled/rows')).body, [{ n: 1, m: 7 }]);
  isError(t, await scene.call('POST', at('seen', '/columns'), needed), 404, 'not_found');
  isError(t, await scene.call('DELETE', at('seen')), 404, 'not_found');
});

test.serial('a viewer changes no table', async (t) => {
  const { viewer } = scene;
  isError(t, await scene.call('POST', '/tables', { name: 'v', columns: [] }, viewer), 403, 'forbidden');
  isError(t, await scene.call('DELETE', at('v'), undefined, viewer), 403, 'forbidden');
  isError(t, await scene.call('POST', at('v', '/columns'), { name: 'a', type: 'int' }, viewer), 403, 'forbidden');
  isError(t, await scene.call('DELETE', at('v', '/columns/a'), undefined, viewer), 403, 'forbidden');
});

test.serial('partitions count with their table', async (t) => {
  await scene.run('create table parted (n int) partition by range (n)');
  await scene.run('create table parted_1 partition of parted for values from (0) to (10)');
  await scene.run('insert into parted select generate_series(0, 4)');
  await scene.run('create view no_table as select 1');
  const { body } = await scene.call('GET', '/tables');
  const names = new Set(body.map(({ name }: { name: string }) => name));
  t.deepEqual(
    body.find(({ name }: { name: string }) => name === 'parted'),
    { name: 'parted', columns: 1, rows: 5 },
  );
  t.false(names.has('parted_1') || names.has('no_table'));
});

test.serial('a table that is locked hides no other, and its rows are estimated', async (t) => {
  await scene.run('create table locked as select generate_series(1, 3) as n');
  await scene.run('create table beside as select generate_series(1, 2) as n');
  const { body } = await asAdmin(scene.project.dbName, async (admin) => {
    await admin.query('begin; lock table public.locked');
    return scene.call('GET', '/tables');
  });
  const rowsOf = (wanted: string) => body.find(({ name }: { name: string }) => name === wanted)?.rows;
  t.is(rowsOf('beside'), 2);
  t.is(typeof rowsOf('locked'), 'number');
});

test.serial('the table limit of a plan is 403 by the tables and by SQL', async (t) => {
  const { client } = platform();
  const { id } = await client.createProject(scene.owner, { plan: 'free' });
  const call = (path: string, body: object) =>
    client.call('POST', `/projects/${id}/db${path}`, { token: scene.owner.token, body });
  const sql = `do $$ begin for i in 1 .. 10 loop execute format('create table t%s (n int)', i); end loop; end $$`;
  t.is((await call('/query', { sql })).status, 200);
  const columns = [{ name: 'n', type: 'int' }];
  isError(t, await call('/tables', { name: 't11', columns }), 403, 'plan_limit_exceeded');
  const refused = await call('/query', { sql: 'create table t11 (n int)' });
  isError(t, refused, 403, 'plan_limit_exceeded');
  t.regex(refused.body.message, /10/);
});

test.serial('of two who make the same table at the same moment the later one is told that it is there', async (t) => {
  const login = await tenantLogin(platform(), scene.project.id, 'owner');
  await asTenant(login, async (first) => {
    await first.query('begin');
    await first.query('create table made_twice (id int)');
    const second = scene.call('POST', '/tables', { name: 'made_twice', columns: [{ name: 'id', type: 'int' }] });
    await until(() =>
      asAdmin(scene.project.dbName, async (admin) => {
        const { rows } = await admin.query(
          `select from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock' and query like '%made_twice%'`,
        );
        return rows.length > 0;
      }),
    );
    await first.query('commit');
    isError(t, await second, 409, 'conflict');
  });
});
