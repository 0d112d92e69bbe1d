import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { until } from '#test/support/until.ts';
import { type TestRun, faultOf, useDatabaseService } from './scene.ts';

// One after the other: a project has twelve connections for runs, and who finds none waits for 2 s, as a user would.
const scene = useDatabaseService(test);

const inTx = (run: TestRun, tx: number, sql: string, params?: unknown[]) => run.call('db.query', { tx, sql, params });

test.serial('a transaction is kept when it is committed, and seen by nobody before', async (t) => {
  const run = scene().open();
  await run.query('create table kept (n int)');
  const tx = await run.call('db.begin');
  await inTx(run, tx, 'insert into kept values ($1)', [1]);
  t.deepEqual(await run.query('select * from kept'), []);
  t.is(await run.call('db.commit', { tx }), null);
  t.deepEqual(await run.query('select * from kept'), [{ n: 1 }]);
  await run.close();
});

test.serial('nothing is kept of a transaction that is rolled back', async (t) => {
  const run = scene().open();
  await run.query('create table dropped (n int)');
  const tx = await run.call('db.begin');
  for (const [op, args] of [
    ['db.insert', { table: 'dropped', data: [{ n: 1 }, { n: 2 }] }],
    ['db.update', { table: 'dropped', data: { n: 3 }, where: 'n = $1', params: [1] }],
    ['db.remove', { table: 'dropped', where: 'n = 2' }],
  ] as const)
    await run.call(op, { tx, ...args });
  t.deepEqual(await run.call('db.select', { tx, table: 'dropped' }), [{ n: 3 }]);
  t.is(await run.call('db.rollback', { tx }), null);
  t.is(await run.call('db.rollback', { tx }), null);
  t.deepEqual(await run.query('select * from dropped'), []);
  await run.close();
});

test.serial('a transaction in which a statement failed cannot be committed, and says so', async (t) => {
  const run = scene().open();
  await run.query('create table failing (n int)');
  const tx = await run.call('db.begin');
  await inTx(run, tx, 'insert into failing values (1)');
  await faultOf(t, inTx(run, tx, 'select nonsense'));
  t.is((await faultOf(t, inTx(run, tx, 'select 1'))).fields['code'], '25P02');
  const fault = await faultOf(t, run.call('db.commit', { tx }));
  t.is(fault.fields['code'], '25P02');
  t.regex(fault.message, /nothing of the transaction was kept/);
  t.deepEqual(await run.query('select * from failing'), []);
  await run.close();
});

test.serial('a constraint that is checked at the end fails the commit', async (t) => {
  const run = scene().open();
  await run.query('create table late_check (n int unique deferrable initially deferred)');
  const tx = await run.call('db.begin');
  await inTx(run, tx, 'insert into late_check values (1), (1)');
  t.is((await faultOf(t, run.call('db.commit', { tx }))).fields['code'], '23505');
  t.deepEqual(await run.query('select * from late_check'), []);
  await run.close();
});

test.serial('a transaction that ended itself is not called committed', async (t) => {
  const run = scene().open();
  const tx = await run.call('db.begin');
  await inTx(run, tx, 'rollback');
  t.is((await faultOf(t, run.call('db.commit', { tx }))).fields['code'], '25P01');
  await run.close();
});

test.serial('what is over takes no more calls', async (t) => {
  const run = scene().open();
  for (const end of ['db.commit', 'db.rollback']) {
    const tx = await run.call('db.begin');
    await run.call(end, { tx });
    t.is((await faultOf(t, inTx(run, tx, 'select 1'))).fields['code'], '25P01');
    t.is((await faultOf(t, run.call('db.commit', { tx }))).fields['code'], '25P01');
  }
  const other = scene().open();
  const theirs = await other.call('db.begin');
  t.is((await faultOf(t, inTx(run, theirs, 'select 1'))).fields['code'], '25P01');
  await Promise.all([run.close(), other.close()]);
});

test.serial('four transactions may be open, the fifth is refused until one has ended', async (t) => {
  const run = scene().open();
  const open = await Promise.all(Array.from({ length: 4 }, () => run.call('db.begin')));
  t.is(new Set(open).size, 4);
  const fault = await faultOf(t, run.call('db.begin'));
  t.is(fault.fields['code'], '53400');
  t.regex(fault.message, /At most 4 transactions/);
  await run.call('db.commit', { tx: open[0] });
  t.is(typeof (await run.call('db.begin')), 'number');
  await run.close();
});

test.serial('calls of a transaction are in order, also when they are made at once', async (t) => {
  const run = scene().open();
  const tx = await run.call('db.begin');
  const calls = [
    inTx(run, tx, 'create temp table steps (n serial, t text)'),
    ...['a', 'b', 'c'].map((text) => inTx(run, tx, 'insert into steps (t) values ($1)', [text])),
    inTx(run, tx, 'select string_agg(t, null order by n) as all from steps'),
  ];
  t.deepEqual((await Promise.all(calls)).at(-1), [{ all: 'abc' }]);
  await run.call('db.commit', { tx });
  await run.close();
});

test.serial(
  'two transactions that cross each other’s rows: one is told of the deadlock, the other is kept',
  async (t) => {
    const run = scene().open();
    await run.query('create table crossed (id int primary key, n int)');
    await run.query('insert into crossed values (1, 0), (2, 0)');
    const [a, b] = [await run.call('db.begin'), await run.call('db.begin')];
    const add = (tx: number, id: number) => inTx(run, tx, 'update crossed set n = n + 1 where id = $1', [id]);
    await add(a, 1);
    await add(b, 2);
    const ends = await Promise.allSettled([add(a, 2), add(b, 1)]);
    t.deepEqual(ends.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
    const [lost, kept] = ends[0]?.status === 'rejected' ? [a, b] : [b, a];
    const failure = ends.find((end) => end.status === 'rejected');
    t.like(failure, { reason: { fields: { code: '40P01' } } });
    t.is((await faultOf(t, run.call('db.commit', { tx: lost }))).fields['code'], '25P02');
    await run.call('db.commit', { tx: kept });
    t.deepEqual(await run.query('select sum(n)::int as n from crossed'), [{ n: 2 }]);
    await run.close();
  },
);

test.serial('two serializable transactions that depend on each other: the second fails with 40001', async (t) => {
  const run = scene().open();
  await run.query('create table serial_one (n int)');
  const [a, b] = [await run.call('db.begin'), await run.call('db.begin')];
  for (const tx of [a, b]) {
    await inTx(run, tx, 'set transaction isolation level serializable');
    await inTx(run, tx, 'select count(*) from serial_one');
  }
  await inTx(run, a, 'insert into serial_one values (1)');
  await inTx(run, b, 'insert into serial_one values (2)');
  await run.call('db.commit', { tx: a });
  t.is((await faultOf(t, run.call('db.commit', { tx: b }))).fields['code'], '40001');
  await run.close();
});

test.serial('a run that ends with open transactions keeps nothing of them and holds no locks', async (t) => {
  const run = scene().open();
  await run.query('create table unfinished (n int)');
  const tx = await run.call('db.begin');
  await inTx(run, tx, 'insert into unfinished values (1)');
  await inTx(run, tx, 'lock table unfinished in access exclusive mode');
  await run.query('begin');
  await run.close();
  await until(async () => (await scene().sessions(`state like 'idle in transaction%'`)) === 0);
  const next = scene().open();
  t.deepEqual(await next.query('select * from unfinished'), []);
  await next.close();
});

test.serial('a run that ends while a transaction begins leaves none behind', async (t) => {
  for (let n = 0; n < 20; n += 1) {
    const run = scene().open();
    const started = run.call('db.begin').catch(() => undefined);
    if (n % 2 === 0) await new Promise(setImmediate);
    await run.close();
    await started;
  }
  await until(async () => (await scene().sessions(`state like 'idle in transaction%'`)) === 0);
  t.true((await scene().sessions('true')) <= 20);
});

test.serial('a transaction whose connection is ended is over, the rest of the run is not', async (t) => {
  const run = scene().open();
  await run.query('create table broken_off (n int)');
  const tx = await run.call('db.begin');
  const [{ pid }] = await inTx(run, tx, 'insert into broken_off values (1) returning pg_backend_pid() as pid');
  await asAdmin('postgres', (admin) => admin.query('select pg_terminate_backend($1, 5000)', [pid]));
  t.is((await faultOf(t, inTx(run, tx, 'select 1'))).name, 'DatabaseError');
  t.regex((await faultOf(t, run.call('db.commit', { tx }))).message, /nothing of it was kept/);
  t.is(await run.call('db.rollback', { tx }), null);
  t.deepEqual(await run.query('select * from broken_off'), []);
  await run.close();
});

test.serial(
  'more connections than there are: the call fails in words after a while, and works when some are back',
  async (t) => {
    const runs = Array.from({ length: 12 }, () => scene().open());
    const extra = scene().open();
    await Promise.all(runs.map((run) => run.query('select 1')));
    const fault = await faultOf(t, extra.query('select 1'));
    t.is(fault.fields['code'], '53300');
    t.regex(fault.message, /All connections to the database are in use/);
    await Promise.all(runs.map((run) => run.close()));
    t.deepEqual(await extra.query('select 1 as one'), [{ one: 1 }]);
    await extra.close();
  },
);
