import test from 'ava';
import {
  type Limits,
  type Session,
  type UncancellableSessions,
  createUncancellableSessions,
  defaultLimits,
  judge,
  watchServer,
} from '#domain/database-servers/watchdog.ts';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import { serverIds } from '#domain/database-servers/upgrade.ts';
import type { TenantRole } from '#lib/tenant-db.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { asTenant, sqlStateOf, tenantLogin } from '#test/support/tenant.ts';
import { startTenantWatch } from '#workers/tenant-watch.ts';
import { type ProjectDatabase, makeDatabase } from './guard-scene.ts';
import { openServers } from './guard-servers.ts';

const platform = usePlatform(test);

let servers: DatabaseServers;

test.before('the servers', async () => {
  servers = await openServers(platform());
});
test.after.always('the servers are left', () => servers?.close());

const sessionOf = (kind: TenantRole, more: Partial<Session> = {}): Session => ({
  pid: 1,
  processId: 1,
  role: `${'a'.repeat(20)}_${kind}`,
  startedAt: '2026-01-01',
  isIdle: false,
  seconds: 0,
  locks: 0,
  ...more,
});

const act = (kind: TenantRole, seconds: number) => judge(sessionOf(kind, { seconds }))?.act ?? null;

test('a statement is cancelled after its time and ended when it goes on', (t) => {
  t.deepEqual(
    [299, 310, 310.1, 315.1].map((seconds) => act('owner', seconds)),
    [null, null, 'cancel', 'terminate'],
  );
  for (const kind of ['api', 'service', 'reader'] as const)
    t.deepEqual(
      [29, 35, 35.1, 40.1].map((seconds) => act(kind, seconds)),
      [null, null, 'cancel', 'terminate'],
    );
});

test('a statement in a fence is stopped soon after its own time, whoever was to do so', (t) => {
  const fenced = (seconds: number) => judge(sessionOf('owner', { seconds, fencedSeconds: 32 }))?.act ?? null;
  t.deepEqual([37, 37.1, 42.1].map(fenced), [null, 'cancel', 'terminate']);
  t.is(judge(sessionOf('api', { seconds: 36, fencedSeconds: 600 }))?.act, 'cancel', 'nobody gives himself more');
});

test('what was ended and goes on for 5 s is told of once, and counted until it has ended', (t) => {
  const uncancellable = createUncancellableSessions();
  const process = { processId: 7, startedAt: 'a' };
  t.false(uncancellable.wasEnded('s', process));
  t.deepEqual(uncancellable.observe('s', [process], 0), []);
  t.true(uncancellable.wasEnded('s', process));
  t.false(uncancellable.wasEnded('other', process));
  t.deepEqual(uncancellable.observe('s', [process], 5000), []);
  t.deepEqual(uncancellable.observe('other', [], 5000), []);
  t.deepEqual(uncancellable.observe('s', [process, { ...process, startedAt: 'b' }], 5001), [process]);
  t.is(uncancellable.count(), 1);
  t.deepEqual(uncancellable.observe('s', [process], 9000), []);
  t.is(uncancellable.count(), 1);
  t.deepEqual(uncancellable.observe('s', [], 10_000), []);
  t.is(uncancellable.count(), 0);
  t.deepEqual(uncancellable.observe('s', [process], 11_000), []);
});

test('a transaction that nobody ends is ended, and who holds too many locks', (t) => {
  t.is(judge(sessionOf('owner', { isIdle: true, seconds: 70 })), null);
  t.is(judge(sessionOf('owner', { isIdle: true, seconds: 70.1 }))?.reason, 'idle_in_transaction');
  t.is(judge(sessionOf('owner', { locks: 4000 })), null);
  t.is(judge(sessionOf('owner', { locks: 4001, isIdle: true }))?.reason, 'locks');
});

const patient: Limits = { ...defaultLimits, statement: () => 3600, idleInTransaction: 3600 };

/** Looks until something was ended. */
const watchUntil = async (
  limits: Limits,
  uncancellable = createUncancellableSessions(),
): Promise<{ reasons: string[]; logged: string }> => {
  const { log, text } = memoryLog();
  const { db } = platform();
  const [server = ''] = await serverIds(db);
  // Ends with the test's time.
  for (;;) {
    const verdicts = await watchServer({ db, servers, log, limits, uncancellable }, server);
    if (verdicts.length > 0) return { reasons: verdicts.map(({ reason }) => reason), logged: text() };
  }
};

/** The error of a statement that runs while the watchdog polls. */
const endOf = async (
  database: ProjectDatabase,
  role: TenantRole,
  sql: string,
  limits: Limits,
): Promise<{ state: string | null; reasons: string[]; logged: string }> => {
  const state = sqlStateOf(database.query(role, 'set statement_timeout = 0', sql));
  const seen = await watchUntil(limits);
  return { state: await state, ...seen };
};

test.serial('what lifted its own time-out is cancelled, with the project in the log', async (t) => {
  const database = await makeDatabase(platform());
  const limits = { ...patient, statement: () => 0, untilTerminated: 3600 };
  const { state, reasons, logged } = await endOf(database, 'service', 'select pg_sleep(600)', limits);
  t.is(state, '57014');
  t.deepEqual(reasons, ['statement']);
  t.regex(logged, new RegExp(`"project_id":"${database.id}"`));
});

test.serial('what catches its cancellation is ended', async (t) => {
  const database = await makeDatabase(platform());
  const stubborn = `do $$ begin loop begin perform pg_sleep(600); exception when query_canceled then null; end; end loop; end $$`;
  const { state } = await endOf(database, 'owner', stubborn, { ...patient, statement: () => 0, untilTerminated: 0 });
  t.is(state, '57P01');
});

test.serial('a session that goes on after its end is told of, with its project', async (t) => {
  const database = await makeDatabase(platform());
  const impatient: UncancellableSessions = {
    observe: (_server, ended) => [...ended],
    wasEnded: () => false,
    count: () => 0,
  };
  const state = sqlStateOf(database.query('owner', 'set statement_timeout = 0', 'select pg_sleep(600)'));
  const limits = { ...patient, statement: () => 0, untilTerminated: 0 };
  const { logged } = await watchUntil(limits, impatient);
  t.is(await state, '57P01');
  t.regex(logged, new RegExp(`"project_id":"${database.id}".*a session goes on after it was terminated`));
});

test.serial('what a fence began is stopped in its time although its role would have more', async (t) => {
  const database = await makeDatabase(platform());
  const limits = { ...patient, statement: () => 3600 };
  const state = sqlStateOf(
    database.query(
      'owner',
      `set statement_timeout = 0; set application_name = 'plinth fence 0 s'`,
      'select pg_sleep(600)',
    ),
  );
  const { reasons } = await watchUntil(limits);
  t.deepEqual(reasons, ['statement']);
  t.is(await state, '57014');
});

test.serial('a session that sits in its transaction is ended, one that is idle outside of any is not', async (t) => {
  const database = await makeDatabase(platform());
  const login = await tenantLogin(platform(), database.id, 'owner');
  await asTenant(login, async (idle) => {
    await idle.query('select 1');
    await asTenant(login, async (sitting) => {
      await sitting.query(`set idle_in_transaction_session_timeout = 0`);
      await sitting.query('begin');
      t.deepEqual((await watchUntil({ ...patient, idleInTransaction: 0 })).reasons, ['idle_in_transaction']);
      await t.throwsAsync(sitting.query('select 1'));
    }).catch(() => undefined);
    await idle.query('select 1');
  });
});

test.serial('a session that locks more than its share is ended', async (t) => {
  const database = await makeDatabase(platform());
  const columns = Array.from({ length: 120 }, (_, n) => `c${n} int unique`).join(', ');
  for (let nth = 0; nth < 9; nth += 1) await database.query('owner', `create table wide_${nth} (${columns})`);
  // Reading locks every index of a table.
  const all = Array.from({ length: 9 }, (_, nth) => `wide_${nth}`).join(', ');
  const { state, reasons } = await endOf(
    database,
    'owner',
    `select pg_sleep(600) from (select) one left join (select 1 from ${all}) a on true`,
    {
      ...patient,
      locks: 1050,
    },
  );
  t.deepEqual(reasons, ['locks']);
  t.is(state, '57P01');
});

const onLinux = process.platform === 'linux' ? test.serial : test.serial.skip;

onLinux('a session that takes too much memory is ended', async (t) => {
  const database = await makeDatabase(platform());
  const greedy = `do $$ declare a text := repeat('x', 200000000); begin perform pg_sleep(600); end $$`;
  const { state, reasons } = await endOf(database, 'owner', greedy, { ...patient, residentKib: 150_000 });
  t.deepEqual(reasons, ['memory']);
  t.is(state, '57P01');
});

test.serial('sessions of another installation on the server are left alone', async (t) => {
  const database = await makeDatabase(platform());
  const login = await tenantLogin(platform(), database.id, 'owner');
  await asTenant(login, async (session) => {
    await session.query('begin');
    const { log } = memoryLog();
    const { db } = platform();
    const [server = ''] = await serverIds(db);
    const stranger = { query: async () => [] as never[] };
    t.deepEqual(
      await watchServer({ db: stranger, servers, log, limits: { ...patient, idleInTransaction: -1 } }, server),
      [],
    );
    await session.query('commit');
  });
});

test.serial('it looks again and again until it is stopped', async (t) => {
  const database = await makeDatabase(platform());
  const { db } = platform();
  const { log } = memoryLog();
  const limits = { ...patient, statement: () => 0 };
  const watch = startTenantWatch({ db, servers, log, limits, everyMs: 20 });
  for (let time = 0; time < 2; time += 1)
    t.is(await database.stateOf('owner', 'set statement_timeout = 0', 'select pg_sleep(600)'), '57014');
  await watch.stop();
  t.is(await database.stateOf('owner', 'select pg_sleep(0.1)'), null);
});
