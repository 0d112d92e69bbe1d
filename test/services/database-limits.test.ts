import test from 'ava';
import { faultOf, useDatabaseService } from './scene.ts';

const scene = useDatabaseService(test);

test('10,000 rows are answered, one more is refused, and the run goes on', async (t) => {
  const run = scene().open();
  await run.query('set my.setting = 1');
  t.is((await run.query('select n from generate_series(1, 10000) n')).length, 10_000);
  const fault = await faultOf(t, run.query('select n from generate_series(1, 10001) n'));
  t.is(fault.name, 'DatabaseError');
  t.regex(fault.message, /10001 rows, more than 10000\. Add LIMIT/);
  t.deepEqual(await run.query(`select current_setting('my.setting') as s`), [{ s: '1' }]);
  await run.close();
});

test('queryOne takes the first of however many rows, and null when there is none', async (t) => {
  const run = scene().open();
  t.deepEqual(await run.call('db.queryOne', { sql: 'select n from generate_series(1, 50000) n' }), { n: 1 });
  t.is(await run.call('db.queryOne', { sql: 'select 1 where false' }), null);
  t.is(await run.call('db.queryOne', { sql: 'create table one_row (n int)' }), null);
  await run.close();
});

for (const [what, sql] of [
  ['one value of 1 GB', `select repeat('x', 1000000000)`],
  ['many rows', `select repeat('x', 100000) from generate_series(1, 5000)`],
  ['a notice', `do $$ begin raise notice '%', repeat('x', 100000000); end $$`],
  ['an error', `do $$ begin raise '%', repeat('x', 100000000); end $$`],
] as const) {
  test.serial(`${what} beyond 16 MB is cut off and never held`, async (t) => {
    const run = scene().open();
    await run.query('select 1');
    globalThis.gc?.();
    const before = process.memoryUsage().rss;
    let max = before;
    const watch = setInterval(() => (max = Math.max(max, process.memoryUsage().rss)), 5);
    const fault = await faultOf(t, run.query(sql));
    clearInterval(watch);
    // The server makes such a value first: the watchdog may find that it takes too much memory.
    if (fault.fields['code'] === '57P01') t.regex(fault.message, /too much memory/);
    else t.regex(`${fault.fields['code']} ${fault.message}`, /^54000 .*more than 16 MB\. Add LIMIT/);
    t.true(max - before < 150 * 1024 * 1024, `${(max - before) / 1024 / 1024} MB`);
    t.deepEqual(await run.query('select 1 as one'), [{ one: 1 }]);
    await run.close();
  });
}

test('values that are small on the wire and large as JSON are refused, too', async (t) => {
  const run = scene().open();
  const fault = await faultOf(t, run.query(`select repeat(E'\\x01', 12000000) as v`));
  t.regex(fault.message, /MB as JSON\. Add LIMIT/);
  await run.close();
});

test('a long message is cut', async (t) => {
  const run = scene().open();
  const fault = await faultOf(t, run.query(`do $$ begin raise '%', repeat('ä', 300000); end $$`));
  t.true(fault.message.length <= 4096);
  t.is(fault.fields['code'], 'P0001');
  await run.close();
});

test('copying from or to nobody ends, and the run goes on', async (t) => {
  const run = scene().open();
  await run.query('create table copied (n int)');
  t.is((await faultOf(t, run.query('copy copied from stdin'))).fields['code'], '57014');
  await run.query('insert into copied values (1), (2)');
  t.deepEqual(await run.query('copy copied to stdout'), []);
  t.deepEqual(await run.query('select count(*)::int as n from copied'), [{ n: 2 }]);
  await run.close();
});

test('the server’s files, programs and settings are out of reach', async (t) => {
  const run = scene().open();
  await run.query('create table if not exists reach (t text)');
  for (const [sql, code] of [
    [`copy reach from program 'id'`, '42501'],
    [`copy reach to program 'cat'`, '42501'],
    [`copy reach from '/etc/passwd'`, '42501'],
    [`select pg_read_file('/etc/passwd')`, '42501'],
    [`select pg_ls_dir('.')`, '42501'],
    ['alter system set work_mem = 1', '42501'],
    ['create role other_role', '42501'],
    ['set role postgres', '22023'],
    [`set session authorization 'postgres'`, '22023'],
    ['create extension plpython3u', ''],
    [`load 'nothing'`, ''],
  ] as const) {
    const fault = await faultOf(t, run.query(sql));
    t.is(fault.name, 'DatabaseError');
    if (code === '42501') t.is(fault.fields['code'], code, sql);
  }
  await run.close();
});

test('one statement a call', async (t) => {
  const run = scene().open();
  t.is((await faultOf(t, run.query('select 1; select 2'))).fields['code'], '42601');
  t.is((await faultOf(t, run.query(`select $1; drop table x`, ['a']))).fields['code'], '42601');
  t.deepEqual(await run.query('select 1 as n;'), [{ n: 1 }]);
  t.deepEqual(await run.query(''), []);
  t.deepEqual(await run.query('-- nothing'), []);
  await run.close();
});

test('NUL in SQL is refused, in a parameter it is the server’s to refuse', async (t) => {
  const run = scene().open();
  t.is((await faultOf(t, run.query('select 1\0; drop'))).name, 'TypeError');
  t.is((await faultOf(t, run.query('select $1::text', ['a\0b']))).fields['code'], '22021');
  t.deepEqual(await run.query('select $1::text as v', ['\ud800']), [{ v: '\ufffd' }]);
  await run.close();
});

test('more parameters than the protocol counts are refused', async (t) => {
  const run = scene().open();
  const params = Array.from({ length: 65_536 }, () => 1);
  t.is((await faultOf(t, run.query('select 1', params))).message, 'db.query: at most 65535 params are possible.');
  t.is((await faultOf(t, run.query('select 1', params.slice(1)))).fields['code'], '08P01');
  await run.close();
});

test('arguments that are not what they should be are refused in words', async (t) => {
  const run = scene().open();
  const wrong: readonly (readonly [op: string, args: object, words: RegExp])[] = [
    ['db.query', {}, /^db\.query: sql must be SQL text\.$/],
    ['db.query', { sql: 5 }, /sql must be SQL text/],
    ['db.query', { sql: 'select 1', params: { a: 1 } }, /params must be a list/],
    ['db.query', { sql: 'select 1', tx: 'x' }, /transaction/],
    ['db.query', { sql: 'select 1', tx: 17 }, /The transaction is over/],
    ['db.insert', { data: {} }, /table/],
    ['db.insert', { table: 't', data: 'x' }, /data must be/],
    ['db.insert', { table: 't', data: [1] }, /data must be a row, or a list of rows/],
    ['db.select', { table: 't', where: { id: 1 } }, /where must be SQL text/],
    ['db.update', { table: 't', data: { a: 1 } }, /"true" means all/],
    ['db.update', { table: 't', data: { a: 1 }, where: '  ' }, /"true" means all/],
    ['db.update', { table: 't', data: {}, where: 'true' }, /at least one column/],
    ['db.update', { table: 't', data: [{ a: 1 }], where: 'true' }, /data must be an object/],
    ['db.remove', { table: 't' }, /"true" means all/],
    ['db.remove', { table: 't', where: '' }, /"true" means all/],
    ['db.commit', {}, /transaction/],
    ['db.nothing', {}, /There is no call "db\.nothing"/],
  ];
  for (const [op, args, words] of wrong) {
    const fault = await faultOf(t, run.call(op, args));
    t.regex(fault.message, words, JSON.stringify(args));
  }
  await run.close();
});

test('an error says what the server says of it', async (t) => {
  const run = scene().open();
  await run.query('create table strict_one (id int primary key, n int not null check (n > 0))');
  await run.query('insert into strict_one values (1, 1)');
  const twice = await faultOf(t, run.query('insert into strict_one values (1, 1)'));
  t.is(twice.name, 'DatabaseError');
  t.like(twice.fields, { code: '23505', constraint: 'strict_one_pkey', table: 'strict_one' });
  t.regex(twice.fields['detail'] ?? '', /already exists/);
  const missing = await faultOf(t, run.call('db.insert', { table: 'strict_one', data: { id: 2 } }));
  t.like(missing.fields, { code: '23502', column: 'n' });
  const typo = await faultOf(t, run.query('select idd from strict_one'));
  t.like(typo.fields, { code: '42703', position: '8' });
  t.regex(typo.fields['hint'] ?? '', /id/);
  const ours = await faultOf(t, run.call('db.select', { table: 'strict_one', where: 'idd = 1' }));
  t.is(ours.fields['position'], undefined);
  await run.close();
});
