import test from 'ava';
import { inFence } from '#domain/database/console/fence.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { asAdmin } from '#test/support/databases.ts';
import { until } from '#test/support/until.ts';
import { processOf } from '#lib/postgres/wire.ts';
import { type DatabaseScene, openScene } from './scene.ts';

const platform = usePlatform(test);

let scene: DatabaseScene;
let opened: Platform;

test.before('there is a project', async () => {
  scene = await openScene(platform());
  opened = await openPlatform(platform().config, memoryLog().log);
});

test.after.always(() => opened.close());

const stubborn = `set statement_timeout = 0; do $$ begin
  for i in 1 .. 1000 loop
    begin perform pg_sleep(3612); exception when query_canceled then null; end;
  end loop;
end $$`;

const never = new AbortController().signal;
const fenceOf = (timeoutMs: number) =>
  ({ projectId: scene.project.id, role: 'owner', timeoutMs, signal: never }) as const;

test('what lifts its own time-out and catches its cancellation is ended from outside', async (t) => {
  const work = opened.projects.tenantDb;
  const ended = inFence(work, fenceOf(10), async (client, stoppedBy) => {
    await client.query(stubborn).catch(() => undefined);
    return stoppedBy();
  });
  t.is(await ended, 'watchdog');
});

test('a session is closed after its work, also when the work fails in an orderly way', async (t) => {
  const { tenantDb } = opened.projects;
  const pid = 'select pg_backend_pid() as pid';
  const first = await inFence(
    tenantDb,
    fenceOf(1000),
    async (client) => (await client.query<{ pid: number }>(pid)).rows,
  );
  await t.throwsAsync(
    inFence(tenantDb, fenceOf(1000), (client) => client.query('select 1/0')),
    { message: /zero/ },
  );
  const second = await inFence(
    tenantDb,
    fenceOf(1000),
    async (client) => (await client.query<{ pid: number }>(pid)).rows,
  );
  t.not(first[0]?.pid, second[0]?.pid);
});

test('a statement that takes too long is 504', async (t) => {
  const answer = await scene.query(
    `do $$ begin raise 'canceling statement due to statement timeout' using errcode = '57014'; end $$`,
  );
  t.is(answer.status, 504);
  t.is(answer.body.code, '57014');
});

test('a statement that nothing ends is left behind, and while two go on no other is begun', async (t) => {
  const { project } = await openScene(platform());
  const { tenantDb } = opened.projects;
  const numbers: number[] = [];
  // A server that cannot interrupt what it does: it catches its cancellation, and nobody ends its session.
  const unsubscribed = { use: tenantDb.use, endSession: () => Promise.resolve(numbers.length > 0) };
  const fence = { ...fenceOf(10), projectId: project.id };
  const run = () =>
    inFence(unsubscribed, fence, (client) => {
      numbers.push(processOf(client));
      return client.query(stubborn);
    });
  const ended = await Promise.allSettled([run(), run()]);
  for (const end of ended) t.like(end, { status: 'rejected', reason: { code: '57014' } });
  const going = await asAdmin(project.dbName, async (admin) => {
    const { rows } = await admin.query('select from pg_stat_activity where pid = any ($1::int[])', [numbers]);
    return rows.length;
  });
  t.is(going, 2);
  await t.throwsAsync(
    inFence(unsubscribed, fence, () => Promise.resolve()),
    { message: /^2 earlier statements of this project still run/ },
  );
  await Promise.all(numbers.splice(0).map((pid) => tenantDb.endSession(project.id, pid)));
  t.is(await inFence(unsubscribed, fence, () => Promise.resolve('free')), 'free');
});

test('a session that the server ended says that it was too much, in 400', async (t) => {
  const answer = scene.query('select pg_sleep(3613)');
  await until(() =>
    asAdmin(scene.project.dbName, async (admin) => {
      const { rows } = await admin.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and state = 'active' and query like '%pg_sleep(3613)%' and pid <> pg_backend_pid()`,
      );
      return rows.length > 0;
    }),
  );
  const { status, body } = await answer;
  t.is(status, 400);
  t.like(body, { code: '53200', message: 'The server ended the session: the statement took too much memory or time.' });
});

test('an error of the same code that SQL raises is passed on', async (t) => {
  const { body } = await scene.query(`do $$ begin raise 'mine' using errcode = '57P01'; end $$`);
  t.like(body, { code: '57P01', message: 'mine' });
});

test('a session that read tables is not lent again: functions of the project run while it plans', async (t) => {
  const { project, run, call } = await openScene(platform());
  await run(`create function taint(int) returns int language plpgsql immutable as
    $$ begin perform pg_advisory_lock(3614); return $1; end $$`);
  await run('create table tainted (x int)');
  await run('create index on tainted (x) where taint(1) = 1');
  t.is((await call('GET', '/tables')).status, 200);
  t.is((await call('GET', '/tainted/rows')).status, 200);
  const held = () =>
    asAdmin(project.dbName, async (admin) => {
      const { rows } = await admin.query(`select a.usename from pg_locks l join pg_stat_activity a using (pid)
      where l.locktype = 'advisory' and l.objid = 3614`);
      return rows;
    });
  // The server takes its time to end a session.
  await until(async () => (await held()).length === 0);
  // The effects that it would have left.
  await opened.projects.tenantDb.use(project.id, 'service', (client) => client.query('select count(*) from tainted'));
  t.is((await held()).length, 1);
});
