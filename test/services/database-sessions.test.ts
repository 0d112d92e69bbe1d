import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { until } from '#test/support/until.ts';
import { faultOf, useDatabaseService } from './scene.ts';

const scene = useDatabaseService(test);

test('settings, temporary tables and locks last from call to call', async (t) => {
  const run = scene().open();
  await run.query(`set my.setting = 'kept'`);
  await run.query('create temp table kept as select 1 as n');
  t.deepEqual(await run.query(`select current_setting('my.setting') as s, n from kept`), [{ s: 'kept', n: 1 }]);
  await run.close();
});

/** State that a run may leave behind, with the way in which the next one would see it. */
const leftovers: readonly (readonly [what: string, leave: readonly string[], seen: string])[] = [
  ['a temporary table', ['create temp table left_over as select 1'], `to_regclass('pg_temp.left_over') is not null`],
  ['a prepared statement', ['prepare left_over as select 1'], 'exists (select from pg_prepared_statements)'],
  ['a setting', [`set my.left_over = 'x'`], `coalesce(current_setting('my.left_over', true), '') <> ''`],
  ['a search path', [`set search_path = pg_temp`], `current_setting('search_path') like '%temp%'`],
  ['a lifted time-out', ['set statement_timeout = 0'], `current_setting('statement_timeout') = '0'`],
  ['a role', [`do $$ begin execute format('set role %I', current_user); end $$`], `current_setting('role') <> 'none'`],
  ['an advisory lock', ['select pg_advisory_lock(815)'], 'pg_advisory_unlock(815)'],
  ['a channel', ['listen left_over'], 'exists (select from pg_listening_channels())'],
  [
    'a cursor',
    ['declare left_over cursor with hold for select 1'],
    `exists (select from pg_cursors where name = 'left_over')`,
  ],
  ['a time zone', [`set time zone 'Asia/Tokyo'`], `current_setting('TimeZone') = 'Asia/Tokyo'`],
  ['read-only', ['set default_transaction_read_only = on'], `current_setting('transaction_read_only') = 'on'`],
  ['an encoding', [`set client_encoding = 'LATIN1'`], `current_setting('client_encoding') <> 'UTF8'`],
  [
    'an open transaction',
    [
      'create table if not exists never_kept (n int)',
      'begin',
      'create table left_over (n int)',
      'prepare a as select 1',
    ],
    `to_regclass('left_over') is not null or exists (select from pg_prepared_statements)`,
  ],
  [
    'a failed transaction',
    ['begin', 'create temp table left_over (n int)', 'select nonsense'],
    `to_regclass('pg_temp.left_over') is not null`,
  ],
  [
    'a sequence’s last value',
    ['create sequence if not exists counted', `select nextval('counted')`],
    'lastval_is_there()',
  ],
];

/** As many as a project can have at a time. */
const maxSessions = 12;

/**
 * Returns the view of a run on the connection with this process number; null while that is not lent again: the server
 * clears it first. Runs keep their connections until it is found: given back at once, it would be lent to the next one.
 */
const seenOn = async (pid: number, seen: string): Promise<{ readonly seen: boolean } | null> => {
  const runs = [];
  try {
    while (runs.length < maxSessions) {
      const run = scene().open();
      runs.push(run);
      const [answer] = await run.query(`select pg_backend_pid() as pid, (${seen}) as seen`);
      if (answer.pid === pid) return { seen: answer.seen };
    }
    return null;
  } finally {
    await Promise.all(runs.map((run) => run.close()));
  }
};

for (const [what, leave, seen] of leftovers) {
  test.serial(`${what} that a run leaves behind is not there in the next, which has the same connection`, async (t) => {
    const first = scene().open();
    const pid = 'select pg_backend_pid() as pid';
    const [{ pid: before }] = await first.query(pid);
    await first.query(`create or replace function lastval_is_there() returns bool language plpgsql as
      $$ begin perform lastval(); return true; exception when others then return false; end $$`);
    for (const sql of leave) await first.query(sql).catch(() => undefined);
    await first.close();
    t.deepEqual(await until(() => seenOn(before, seen)), { seen: false });
  });
}

test.serial('the leftovers are there to be seen, in the run that makes them', async (t) => {
  for (const [what, leave, seen] of leftovers.filter(([what]) => !what.includes('transaction'))) {
    const run = scene().open();
    await run.query(`create or replace function lastval_is_there() returns bool language plpgsql as
      $$ begin perform lastval(); return true; exception when others then return false; end $$`);
    for (const sql of leave) await run.query(sql).catch(() => undefined);
    t.deepEqual(await run.query(`select (${seen.replaceAll(/pg_temp\./g, '')}) as seen`), [{ seen: true }], what);
    await run.close();
  }
});

test('two runs at a time do not see each other’s sessions', async (t) => {
  const [a, b] = [scene().open(), scene().open()];
  await a.query('create temp table mine as select 1 as n');
  t.is((await faultOf(t, b.query('select * from mine'))).fields['code'], '42P01');
  const [[{ pid: one }], [{ pid: two }]] = await Promise.all([
    a.query('select pg_backend_pid() as pid'),
    b.query('select pg_backend_pid() as pid'),
  ]);
  t.not(one, two);
  await Promise.all([a.close(), b.close()]);
});

test('calls at the same time are done one after the other, on one connection', async (t) => {
  const run = scene().open();
  await run.query('create temp table ordered (n int)');
  await Promise.all(
    Array.from({ length: 64 }, (_, n) =>
      run.query('insert into ordered select coalesce(max(n) + 1, 0) + 0 * $1::int from ordered', [n]),
    ),
  );
  t.deepEqual(await run.query('select count(*)::int as n, max(n) as most from ordered'), [{ n: 64, most: 63 }]);
  await run.close();
});

const running = (text: string): Promise<number> =>
  scene().sessions(`state = 'active' and position('${text}' in query) > 0`);

for (const [what, before, sql] of [
  ['a statement', [], 'select pg_sleep(3605)'],
  ['a statement that lifted its time-out', ['set statement_timeout = 0'], 'select pg_sleep(3606)'],
  [
    'SQL that catches its cancellation',
    ['set statement_timeout = 0'],
    `do $$ begin for i in 1 .. 100 loop
       begin perform pg_sleep(3607); exception when query_canceled then null; end; end loop; end $$`,
  ],
] as const) {
  test(`${what} ends with its run, and the caller does not wait for that`, async (t) => {
    const run = scene().open();
    for (const first of before) await run.query(first);
    const mark = /pg_sleep\(\d+\)/.exec(sql)?.[0] ?? '';
    const work = run.query(sql).catch(() => 'ended');
    await until(async () => (await running(mark)) === 1);
    await run.close();
    await until(async () => (await running(mark)) === 0);
    t.is(await work, 'ended');
    t.is((await faultOf(t, run.query('select 1'))).message, 'The run is over.');
  });
}

test('the server itself ends a statement that outlives the time that the run has', async (t) => {
  const run = scene().open(1);
  t.is((await faultOf(t, run.query('select pg_sleep(3608)'))).fields['code'], '57014');
  await run.close();
});

test('what waits for its turn when the run ends is not done', async (t) => {
  const run = scene().open();
  await run.query('create table late (n int)');
  const slow = run.query('select pg_sleep(3609)').catch(() => undefined);
  const late = faultOf(t, run.query('insert into late values (1)'));
  await until(async () => (await running('pg_sleep(3609)')) === 1);
  await run.close();
  t.is((await late).message, 'The run is over.');
  await slow;
  const next = scene().open();
  t.deepEqual(await next.query('select * from late'), []);
  await next.close();
});

const kill = (pid: number): Promise<unknown> =>
  asAdmin('postgres', (admin) => admin.query('select pg_terminate_backend($1, 5000)', [pid]));

test('a connection that is ended is told of once, and the next call has a new one', async (t) => {
  const run = scene().open();
  const [{ pid: first }] = await run.query('select pg_backend_pid() as pid');
  await kill(first);
  const reported = await faultOf(t, run.query('select 1'));
  t.is(reported.name, 'DatabaseError');
  t.true(['57P01', '08006'].includes(reported.fields['code'] ?? ''));
  const [{ pid: second }] = await run.query('select pg_backend_pid() as pid');
  t.not(second, first);
  const sleeping = faultOf(t, run.query('select pg_sleep(3610)'));
  await until(async () => (await running('pg_sleep(3610)')) === 1);
  await kill(second);
  t.is((await sleeping).fields['code'], '57P01');
  t.deepEqual(await run.query('select 1 as one'), [{ one: 1 }]);
  await run.close();
});

test('a function can end its own connection and go on', async (t) => {
  const run = scene().open();
  await faultOf(t, run.query('select pg_terminate_backend(pg_backend_pid())'));
  t.deepEqual(await run.query('select 1 as one'), [{ one: 1 }]);
  await run.close();
});

test('runs give back what they lease: a hundred after each other need few connections', async (t) => {
  for (let n = 0; n < 100; n += 1) {
    const run = scene().open();
    t.deepEqual(await run.query('select 1 as one'), [{ one: 1 }]);
    await run.close();
  }
  t.true((await scene().sessions('true')) <= 20);
});

test('a run that never asks has no connection', async (t) => {
  const run = scene().open();
  await run.close();
  t.is((await faultOf(t, run.query('select 1'))).message, 'The run is over.');
});
