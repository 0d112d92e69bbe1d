import test from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

let user: TestUser;
let project: TestProject;

test.before('a project', async () => {
  user = await platform().client.signUp();
  project = await platform().client.createProject(user);
});

const handler = (body: string): string => `exports.handler = async (payload, { db }) => { ${body} }`;

/** Runs the body of a handler in its project and answers what the invoke says. */
const invoke = async (body: string, payload: unknown = null, fields: Record<string, unknown> = {}, where = project) => {
  const { client } = platform();
  const fn = await client.deploy(user, where, handler(body), fields);
  return (await client.invoke(user, where, fn, payload)).body;
};

const running = (text: string): Promise<number> =>
  asAdmin('postgres', async (admin) => {
    const sql = `select from pg_stat_activity where datname = $1 and state = 'active' and position($2 in query) > 0`;
    return (await admin.query(sql, [project.dbName, text])).rows.length;
  });

test('a function works on its project’s tables', async (t) => {
  const { status, result } = await invoke(
    `
    await db.query('create table notes (id int generated always as identity, text text, tags jsonb)');
    const one = await db.insert('notes', { text: payload, tags: ['a', { b: 1 }] });
    const many = await db.insert('notes', [{ text: 'x' }, { text: 'y' }]);
    const changed = await db.update('notes', { text: 'z' }, 'id = $1', [many[0].id]);
    const removed = await db.remove('notes', 'text = $1', ['y']);
    return {
      one, changed, removed,
      rows: await db.select('notes', 'id > $1', [0]),
      first: await db.queryOne('select count(*) as n from notes'),
      none: await db.queryOne('select 1 where false'),
      bytes: await db.query('select $1::bytea as v, $2::bigint as n', [new Uint8Array([0, 255]), 2n ** 62n]),
    };`,
    `it's "new"; --`,
  );
  t.is(status, 'success');
  t.deepEqual(result, {
    one: { id: 1, text: `it's "new"; --`, tags: ['a', { b: 1 }] },
    changed: 1,
    removed: 1,
    rows: [
      { id: 1, text: `it's "new"; --`, tags: ['a', { b: 1 }] },
      { id: 2, text: 'z', tags: null },
    ],
    first: { n: 2 },
    none: null,
    bytes: [{ v: '\\x00ff', n: String(2n ** 62n) }],
  });
});

test('a failed statement is an error with the server’s words, which the function can catch', async (t) => {
  const caught = await invoke(`
    try { await db.query('select * from nowhere') }
    catch ({ name, message, code, position, stack }) { return { name, message, code, position, here: /handler/.test(stack) } }`);
  t.deepEqual(caught.result, {
    name: 'DatabaseError',
    message: 'relation "nowhere" does not exist',
    code: '42P01',
    position: '15',
    here: true,
  });
  const uncaught = await invoke(`await db.query('select 1/0')`);
  t.is(uncaught.status, 'error');
  t.like(uncaught.error, { name: 'DatabaseError', message: 'division by zero' });
});

test('a transaction is kept whole or not at all', async (t) => {
  const { result } = await invoke(`
    await db.query('create table accounts (id int, balance int check (balance >= 0))');
    await db.insert('accounts', [{ id: 1, balance: 10 }, { id: 2, balance: 0 }]);
    const move = (amount) => db.transaction(async (tx) => {
      await tx.update('accounts', { balance: 100 }, 'id = $1', [2]);
      await tx.query('update accounts set balance = balance - $1 where id = 1', [amount]);
      return 'moved';
    });
    const kept = await move(10);
    const failed = await move(1).catch(({ code }) => code);
    const thrown = await db.transaction(async (tx) => { await tx.remove('accounts', 'true'); throw new Error('no') }).catch((e) => e.message);
    return { kept, failed, thrown, rows: await db.query('select * from accounts order by id') };`);
  t.deepEqual(result, {
    kept: 'moved',
    failed: '23514',
    thrown: 'no',
    rows: [
      { id: 1, balance: 0 },
      { id: 2, balance: 100 },
    ],
  });
});

test('what one run leaves in its session, the next run does not see', async (t) => {
  const { client } = platform();
  const fn = await client.deploy(
    user,
    project,
    handler(`
      const seen = await db.query("select to_regclass('pg_temp.left_over') is not null as t, current_setting('my.x', true) as s");
      await db.query('create temp table left_over (n int)');
      await db.query("set my.x = 'left'");
      await db.query('begin');
      await db.query('create table never_committed (n int)');
      return seen[0];`),
  );
  for (let n = 0; n < 5; n += 1) {
    const { body } = await client.invoke(user, project, fn, null);
    t.is(body.status, 'success');
    t.false(body.result.t);
    t.true(body.result.s === null || body.result.s === '');
  }
  await until(
    async () =>
      (await invoke(`return await db.query("select to_regclass('never_committed') as t")`)).result[0].t === null,
  );
});

for (const [what, sql] of [
  ['a statement', 'select pg_sleep(3701)'],
  ['a statement after its time-out was lifted', 'set statement_timeout = 0; select pg_sleep(3702)'],
] as const) {
  test(`${what} that takes longer than its run is a run that timed out, and is cancelled`, async (t) => {
    const calls = sql.split(';').map((one) => `await db.query('${one}')`);
    const { status } = await invoke(calls.join(';'), null, { timeout_ms: 500 });
    t.is(status, 'timeout');
    await until(async () => (await running('pg_sleep(370')) === 0);
  });
}

test('a statement that nobody waits for ends with the run', async (t) => {
  const { result } = await invoke(
    `db.query('select pg_sleep(3703)').catch(() => {}); await db.transaction((tx) => tx.query('select 1')); return 'gone'`,
  );
  t.is(result, 'gone');
  await until(async () => (await running('pg_sleep(3703)')) === 0);
});

test('a run that is cancelled cancels its statement', async (t) => {
  const { client } = platform();
  const fn = await client.deploy(user, project, handler(`await db.query('select pg_sleep(3704)')`), {
    timeout_ms: 60_000,
  });
  const accepted = await client.call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, {
    token: user.token,
    body: { payload: null },
    headers: { prefer: 'respond-async' },
  });
  await until(async () => (await running('pg_sleep(3704)')) === 1);
  const path = `/projects/${project.id}/jobs/${accepted.body.job_id}`;
  const cancelled = await client.call('POST', `${path}/cancel`, { token: user.token });
  t.true(cancelled.status < 300, cancelled.text);
  await until(async () => (await running('pg_sleep(3704)')) === 0);
  const job = await until(async () => {
    const got = await client.call('GET', path, { token: user.token });
    return ['cancelled', 'failed', 'succeeded'].includes(got.body.status) && got;
  });
  t.is(job.body.status, 'cancelled');
});

test('a query that returns 1 GB is refused, and the function and the worker go on', async (t) => {
  const { client } = platform();
  const code = handler(`
    const reported = await db.query("select repeat('x', 1000000000)").catch(({ name, message }) => name + ': ' + message);
    return { reported, after: await db.query('select 1 as one') };`);
  const fn = await client.deploy(user, project, code, { timeout_ms: 100_000 });
  const accepted = await client.call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, {
    token: user.token,
    body: { payload: null },
    headers: { prefer: 'respond-async' },
  });
  // The server itself needs a while to make such a value.
  const job = await until(async () => {
    const got = await client.call('GET', `/projects/${project.id}/jobs/${accepted.body.job_id}`, { token: user.token });
    return ['failed', 'succeeded'].includes(got.body.status) && got.body;
  });
  t.is(job.status, 'succeeded');
  // The server makes such a value first: the watchdog may find that it takes too much memory.
  t.regex(job.result.result.reported, /^DatabaseError: .*(16 MB\. Add LIMIT|too much memory)/);
  t.deepEqual(job.result.result.after, [{ one: 1 }]);
});

test('a hundred calls at once are answered in their order', async (t) => {
  const { result } = await invoke(`
    const calls = Array.from({ length: 100 }, (_, n) => db.query('select $1::int as n', [n]).then(([row]) => row.n));
    return await Promise.all(calls);`);
  t.deepEqual(
    result,
    Array.from({ length: 100 }, (_, n) => n),
  );
});

test('a Buffer and a Uint8Array come to a bytea column as their bytes', async (t) => {
  const { result } = await invoke(`
    const bytes = [0, 255, 16];
    return await db.queryOne('select $1::bytea as a, $2::bytea as b', [Buffer.from(bytes), new Uint8Array(bytes)]);`);
  t.deepEqual(result, { a: String.raw`\x00ff10`, b: String.raw`\x00ff10` });
});

test('the databases of other projects and of the platform are out of reach', async (t) => {
  const other = await platform().client.createProject(user);
  await invoke(`await db.query('create table secret as select 42 as n')`, null, {}, other);
  const control = new URL(platform().config.DATABASE_URL).pathname.slice(1);
  const { result } = await invoke(
    `const told = {};
    for (const [what, sql] of Object.entries({
      secret: 'select * from secret',
      across: 'select * from "' + payload.other + '".public.secret',
      copy: "copy (select 1) to program 'cat'",
      dblink: 'create extension dblink',
      fdw: 'create extension postgres_fdw',
      users: 'select * from users',
      shadow: 'select * from pg_authid',
      names: 'select datname from pg_database where datname <> current_database()',
      activity: "select query from pg_stat_activity where datname is distinct from current_database()",
    }))
      told[what] = await db.query(sql).then((rows) => rows, ({ code }) => code);
    return told;`,
    { other: other.dbName, control },
  );
  t.is(result.secret, '42P01');
  t.is(result.across, '0A000');
  t.is(result.users, '42P01');
  t.is(result.shadow, '42501');
  for (const what of ['copy', 'dblink', 'fdw', 'names', 'activity']) {
    const reported = result[what];
    t.true(typeof reported === 'string' || !JSON.stringify(reported).includes(other.dbName), what);
  }
  t.is(typeof result.copy, 'string');
});

test('a database that cannot be reached is told in words', async (t) => {
  const own = await platform().client.createProject(user);
  const fn = await platform().client.deploy(user, own, handler(`return await db.query('select 1 as one')`));
  t.deepEqual((await platform().client.invoke(user, own, fn, null)).body.result, [{ one: 1 }]);
  const allow = (yes: boolean) =>
    asAdmin('postgres', async (admin) => {
      await admin.query(`alter database "${own.dbName}" allow_connections ${String(yes)}`);
      await admin.query('select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1', [
        own.dbName,
      ]);
    });
  await allow(false);
  const { body } = await platform().client.invoke(user, own, fn, null);
  t.is(body.status, 'error');
  t.like(body.error, { name: 'DatabaseError', message: 'No connection to the project’s database could be made.' });
  await allow(true);
  t.deepEqual((await platform().client.invoke(user, own, fn, null)).body.result, [{ one: 1 }]);
});

test('an owner role whose password was changed is let in again', async (t) => {
  const own = await platform().client.createProject(user);
  await invoke(
    `await db.query("alter role current_user password 'mine'"); await db.query('select pg_terminate_backend(pg_backend_pid())').catch(() => {})`,
    null,
    {},
    own,
  );
  const { result } = await invoke(`return await db.query('select 1 as one')`, null, {}, own);
  t.deepEqual(result, [{ one: 1 }]);
});

test('tables and columns with names of any kind are names and nothing else', async (t) => {
  const names = ['x"; drop table kept; --', `a'b`, 'Ünï "x"', '*'];
  const { status, result } = await invoke(
    `await db.query('create table kept (n int)');
    const out = [];
    for (const name of payload) {
      const quoted = '"' + name.replaceAll('"', '""') + '"';
      await db.query('create table ' + quoted + ' (' + quoted + ' int)');
      out.push((await db.insert(name, { [name]: 1 }))[name], await db.update(name, { [name]: 2 }, 'true'), (await db.select(name))[0][name]);
    }
    return { out, kept: await db.select('kept') };`,
    names,
  );
  t.is(status, 'success');
  t.deepEqual(result, { out: names.flatMap(() => [1, 1, 2]), kept: [] });
});
