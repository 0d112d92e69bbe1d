import test from 'ava';
import { until } from '#test/support/until.ts';
import { type TestRun, faultOf, useDatabaseService } from './scene.ts';

const scene = useDatabaseService(test);

const inTx = (run: TestRun, tx: number, sql: string, params?: unknown[]) => run.call('db.query', { tx, sql, params });

const asleep = (seconds: number): Promise<number> =>
  scene().sessions(`query like 'select pg_sleep(${seconds})%' and state = 'active'`);

/** A transaction that sleeps, its time-out lifted; nobody waits for it. */
const sleeping = async (run: TestRun, seconds: number): Promise<number> => {
  const tx = await run.call('db.begin');
  await inTx(run, tx, 'set statement_timeout = 0');
  void inTx(run, tx, `select pg_sleep(${seconds})`).catch(() => undefined);
  return tx;
};

for (const [seconds, end] of [
  [3801, 'db.commit'],
  [3802, 'db.rollback'],
] as const) {
  test.serial(`a run that ends while ${end} waits for a statement cancels the statement`, async (t) => {
    const run = scene().open();
    await run.query('select 1');
    const tx = await sleeping(run, seconds);
    await until(async () => (await asleep(seconds)) === 1);
    const ended = run.call(end, { tx }).catch((error: unknown) => error);
    await run.close();
    await until(async () => (await asleep(seconds)) === 0);
    await ended;
    await until(async () => (await scene().sessions(`state like 'idle in transaction%'`)) === 0);
    t.pass();
  });
}

test.serial('a transaction whose end waits counts as open, and holds no connection beyond the run', async (t) => {
  const run = scene().open();
  for (const end of ['db.commit', 'db.rollback', 'db.commit', 'db.rollback']) {
    const tx = await sleeping(run, 3803);
    void run.call(end, { tx }).catch(() => undefined);
  }
  const fault = await faultOf(t, run.call('db.begin'));
  t.is(fault.fields['code'], '53400');
  await run.close();
  await until(async () => (await asleep(3803)) === 0);
  const next = Array.from({ length: 12 }, () => scene().open());
  const answers = await until(() => Promise.all(next.map((one) => one.query('select 1 as n'))).catch(() => null));
  t.deepEqual(
    answers.flat().map(({ n }) => n),
    Array(12).fill(1),
  );
  await Promise.all(next.map((one) => one.close()));
});

test('what was sent before the commit is part of it, also when nobody waited for the answer', async (t) => {
  const run = scene().open();
  await run.query('create table sent_first (n int)');
  const tx = await run.call('db.begin');
  const [made, committed] = await Promise.allSettled([
    run.call('db.insert', { tx, table: 'sent_first', data: { n: 1 } }),
    run.call('db.commit', { tx }),
  ]);
  t.like(made, { status: 'fulfilled', value: { n: 1 } });
  t.is(committed?.status, 'fulfilled');
  t.deepEqual(await run.query('select * from sent_first'), [{ n: 1 }]);
  await run.close();
});

test('what was sent after the commit or the rollback is told that the transaction is over', async (t) => {
  const run = scene().open();
  await run.query('create table sent_late (n int)');
  for (const end of ['db.commit', 'db.rollback']) {
    const tx = await run.call('db.begin');
    const [ended, fault] = await Promise.all([
      run.call(end, { tx }),
      faultOf(t, inTx(run, tx, 'insert into sent_late values (1)')),
    ]);
    t.is(ended, null);
    t.is(fault.fields['code'], '25P01');
    t.is(fault.message, 'The transaction is over.');
  }
  t.deepEqual(await run.query('select * from sent_late'), []);
  await run.close();
});

test('a statement that fails just before the commit fails the commit', async (t) => {
  const run = scene().open();
  await run.query('create table sent_wrong (n int)');
  const tx = await run.call('db.begin');
  const calls = [
    inTx(run, tx, 'insert into sent_wrong values (1)'),
    inTx(run, tx, 'select nonsense'),
    run.call('db.commit', { tx }),
  ];
  const ends = await Promise.allSettled(calls);
  t.deepEqual(
    ends.map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected'],
  );
  t.like(ends[2], { reason: { fields: { code: '25P02' } } });
  t.deepEqual(await run.query('select * from sent_wrong'), []);
  await run.close();
});

test('the limit of a statement counts from the first call: a process may take long to be there', async (t) => {
  const run = scene().open(300);
  const opened = performance.now();
  await until(() => performance.now() - opened > 600);
  const [{ ms }] = await run.query(`select setting::int as ms from pg_settings where name = 'statement_timeout'`);
  t.true(ms > 1000 && ms <= 1301, `${ms} ms`);
  await run.close();
});
