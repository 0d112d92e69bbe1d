import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { failed } from '#workers/processors/cron-fire.ts';
import { type CronClient, cronClient } from './cron-client.ts';

const platform = usePlatform(test);

let cron: CronClient;

const openCron = async (): Promise<CronClient> => {
  const owner = await platform().client.signUp();
  return cronClient(platform(), owner, await platform().client.createProject(owner, { plan: 'pro' }));
};

test.before('there is a project on the pro plan', async () => {
  cron = await openCron();
});

for (const [what, sql] of [
  ['one large row', `select repeat('x', 20000000)`],
  ['one row of more than 1 MB', `select repeat('x', 1500000)`],
  ['many rows', `select repeat('x', 1000) from generate_series(1, 20000)`],
  ['a large error', `do $$ begin raise '%', repeat('x', 2000000); end $$`],
] as const) {
  test(`SQL that answers ${what} fails, and the worker goes on`, async (t) => {
    const { run, job } = await cron.sqlRun(sql);
    t.is(run.status, 'failed');
    t.is(run.error.code, 'result_too_large');
    t.is(job.attempt, 1);
    t.deepEqual((await cron.sqlRun('select 1')).job.result, { row_count: 1, command: 'SELECT' });
  });
}

test('rows are counted, however many', async (t) => {
  const { job } = await cron.sqlRun('select 1; select * from generate_series(1, 300000)');
  t.deepEqual(job.result, { row_count: 300_000, command: 'SELECT' });
});

test('SQL that answered too much does not go on in the database', async (t) => {
  const { run } = await cron.sqlRun(`set statement_timeout = 0; select repeat('x', 1500000); select pg_sleep(3603)`);
  t.is(run.error.code, 'result_too_large');
  await until(async () => !(await cron.runsInDatabase('pg_sleep(3603)')));
});

test('SQL that copies from or to nobody ends', async (t) => {
  await cron.sqlRun('create table copied (n int)');
  t.is((await cron.sqlRun('copy copied from stdin')).run.error.code, '57014');
  t.is((await cron.sqlRun('insert into copied values (1), (2)')).run.status, 'succeeded');
  t.deepEqual((await cron.sqlRun('copy copied to stdout')).job.result, { row_count: 2, command: 'COPY' });
});

test('of a long message of SQL the first 4 KB are kept', async (t) => {
  const { run } = await cron.sqlRun(`do $$ begin raise '%', repeat('ä', 300000); end $$`);
  t.is(run.error.code, 'P0001');
  t.regex(run.error.message, /^ä+…$/);
  t.true(Buffer.byteLength(run.error.message) <= 4096);
});

test('a message is cut between characters, and a short one not at all', (t) => {
  t.is(failed('x', 'a'.repeat(4096)).error?.message, 'a'.repeat(4096));
  t.is(failed('x', `a${'😀'.repeat(2000)}`).error?.message, `a${'😀'.repeat(1023)}…`);
});

const stubborn = `do $$ begin
  for i in 1 .. 1000 loop
    begin perform pg_sleep(3604); exception when query_canceled then null; end;
  end loop;
end $$`;

test('SQL that catches its cancellation is ended also when it holds every connection of the owner', async (t) => {
  const own = await openCron();
  const ids = await Promise.all(Array.from({ length: 4 }, () => own.create({ type: 'sql', sql: stubborn })));
  const jobs = await Promise.all(ids.map(own.begin));
  const sessions = `select from pg_stat_activity where datname = $1 and position('pg_sleep(3604)' in query) > 0`;
  const held = async (): Promise<number> => (await platform().db.query(sessions, [own.project.dbName])).length;
  await until(async () => (await held()) === 4);
  await Promise.all(jobs.map(own.cancel));
  t.deepEqual(await Promise.all(ids.map(async (id) => (await own.endOf(id)).run.status)), Array(4).fill('cancelled'));
  await until(async () => (await held()) === 0);
});

for (const [what, sql] of [
  ['changes its own password', `alter role current_user password 'mine'`],
  ['takes its own password away', 'alter role current_user password null'],
] as const) {
  test(`an owner that ${what} gets the recorded one again`, async (t) => {
    const own = await openCron();
    t.is((await own.sqlRun(sql)).run.status, 'succeeded');
    const { run, job } = await own.sqlRun('select 1');
    t.is(run.status, 'succeeded');
    t.is(job.attempt, 1);
  });
}

test('SQL that says that a password is wrong changes no password and runs once', async (t) => {
  const own = await openCron();
  await own.sqlRun('create sequence times');
  const { run, job } = await own.sqlRun(
    `select nextval('times'); do $$ begin raise 'no' using errcode = '28P01'; end $$`,
  );
  t.is(run.error.code, '28P01');
  t.is(job.attempt, 1);
  t.is((await own.sqlRun(`do $$ begin assert nextval('times') = 2; end $$`)).run.status, 'succeeded');
});
