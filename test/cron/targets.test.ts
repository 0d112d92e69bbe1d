import { once } from 'node:events';
import { type IncomingMessage, type RequestListener, type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import test from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { until } from '#test/support/until.ts';
import { type CronClient, cronClient } from './cron-client.ts';

const platform = usePlatform(test, { shared: true });

let owner: TestUser;
let project: TestProject;
let cron: CronClient;
const servers: Server[] = [];

test.before('there is a project on the pro plan', async () => {
  owner = await platform().client.signUp();
  project = await platform().client.createProject(owner, { plan: 'pro' });
  cron = cronClient(platform(), owner, project);
});

test.after.always(() => {
  for (const server of servers) server.close().closeAllConnections();
});

/** A server of somebody else. */
const serve = async (listener: RequestListener): Promise<string> => {
  const server = createServer(listener).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?a=b`;
};

test('the tick of a worker fires what is due, and the run says how its job went', async (t) => {
  const code = 'export const handler = (payload) => ({ got: payload.n + 1 });';
  const fn = await platform().client.deploy(owner, project, code);
  const id = await cron.create({ type: 'function', function_id: fn.id }, { payload: { n: 41 } });
  await platform().db.query('update schedules set next_run_at = now(), due_at = now() where id = $1', [id]);
  const { run: seen, job } = await cron.endOf(id);
  t.like(seen, { status: 'succeeded', trigger: 'schedule', error: null, reason: null });
  t.is(seen.duration_ms, Date.parse(seen.finished_at) - Date.parse(seen.started_at));
  t.like(job, { type: 'function.invoke', status: 'succeeded' });
  t.deepEqual(job.result.result, { got: 42 });
  t.is((await cron.call('GET', `/cron/${id}`)).body.last_run.id, seen.id);
});

test('a function that fails makes a failed run with its error', async (t) => {
  const fn = await platform().client.deploy(owner, project, 'export const handler = () => { throw new Error("no"); };');
  const { run: seen } = await cron.run(await cron.create({ type: 'function', function_id: fn.id }));
  t.like(seen, { status: 'failed', trigger: 'manual' });
  t.like(seen.error, { code: 'error' });
});

test('an HTTP target is sent the payload as JSON, exactly', async (t) => {
  const seen: { request?: IncomingMessage; body?: string } = {};
  const url = await serve((request, response) => {
    void text(request)
      .then((body) => Object.assign(seen, { request, body }))
      .finally(() => response.writeHead(201, { 'content-type': 'text/plain' }).end('thanks'));
  });
  const id = await cron.create({ type: 'http', url }, { payload: { text: 'ä\u0000', n: 0.1 } });
  const { run: ran, job } = await cron.run(id);
  t.is(ran.status, 'succeeded');
  t.like(job.result, { status: 201, body: 'thanks' });
  t.true(job.result.duration_ms >= 0);
  t.is(seen.body, '{"text":"ä\\u0000","n":0.1}');
  t.like(seen.request, { method: 'POST', url: '/hook?a=b' });
  t.like(seen.request?.headers, {
    'content-type': 'application/json',
    'idempotency-key': ran.id,
    'x-plinth-schedule-id': id,
  });
});

for (const status of [302, 404, 500]) {
  test(`an HTTP target that answers ${status} is a failed run, called once`, async (t) => {
    let calls = 0;
    const url = await serve((_request, response) => {
      calls += 1;
      response.writeHead(status, { location: '/elsewhere' }).end('sorry');
    });
    const { run: ran, job } = await cron.run(await cron.create({ type: 'http', url }));
    t.like(ran, { status: 'failed' });
    t.is(ran.error.code, 'http_status');
    t.like(job.result, { status, body: 'sorry' });
    t.is(calls, 1);
  });
}

test('of a long answer the first 64 KB are kept', async (t) => {
  const url = await serve((_request, response) => void response.end('x'.repeat(1_000_000)));
  const { job } = await cron.run(await cron.create({ type: 'http', url }));
  t.is(job.status, 'succeeded');
  t.is(job.result.body.length, 65_536);
});

test('an address that nobody listens at is a failed run, tried once', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  await new Promise((resolve) => void server.close(resolve));
  const { run: ran, job } = await cron.run(await cron.create({ type: 'http', url }));
  t.like(ran.error, { code: 'http_connection_failed' });
  t.is(job.attempt, 1);
});

test('an address that is not open is refused, and the run says so', async (t) => {
  const { run: ran, job } = await cron.run(await cron.create({ type: 'http', url: 'http://10.0.0.1/' }));
  t.like(ran.error, { code: 'egress_refused' });
  t.is(job.attempt, 1);
});

test('an HTTP target is let go of when its job is cancelled', async (t) => {
  const gone = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const url = await serve((request) => {
    request.socket.once('close', () => gone.resolve());
    arrived.resolve();
  });
  const id = await cron.create({ type: 'http', url });
  const jobId = await cron.begin(id);
  await arrived.promise;
  await cron.cancel(jobId);
  await gone.promise;
  t.is((await cron.endOf(id)).run.status, 'cancelled');
});

const inProject = async <Row extends object>(sql: string): Promise<Row[]> =>
  asTenant(await tenantLogin(platform(), project.id, 'owner'), async (client) => (await client.query<Row>(sql)).rows);

test('SQL runs as the project’s owner, and the result says what it did', async (t) => {
  t.deepEqual((await cron.sqlRun('create table ticks (n int)')).job.result, { row_count: 0, command: 'CREATE' });
  const { job } = await cron.sqlRun('insert into ticks select * from generate_series(1, 3)');
  t.deepEqual(job.result, { row_count: 3, command: 'INSERT' });
  t.deepEqual(await inProject('select count(*)::int as n from ticks'), [{ n: 3 }]);
});

test('several statements are one transaction', async (t) => {
  const { run: ran } = await cron.sqlRun('create table half (n int); select 1/0');
  t.like(ran, { status: 'failed' });
  t.is(ran.error.code, '22012');
  t.deepEqual(await inProject(`select to_regclass('half') as found`), [{ found: null }]);
});

test('wrong SQL is a failed run with its SQLSTATE, tried once', async (t) => {
  const { run: ran, job } = await cron.sqlRun('select * from nowhere');
  t.is(ran.error.code, '42P01');
  t.is(job.attempt, 1);
});

test('what SQL does to its session is gone with it', async (t) => {
  await cron.sqlRun(`create temp table mine (n int); set search_path = pg_catalog; select pg_advisory_lock(7)`);
  t.is((await cron.sqlRun('select * from mine')).run.error.code, '42P01');
  t.is(
    (
      await cron.sqlRun(
        `do $$ begin if current_setting('search_path') = 'pg_catalog' then raise 'kept'; end if; end $$`,
      )
    ).run.status,
    'succeeded',
  );
  t.deepEqual(await inProject('select pg_try_advisory_lock(7) as free'), [{ free: true }]);
});

const stubborn = `do $$ begin
  for i in 1 .. 1000 loop
    begin perform pg_sleep(3601); exception when query_canceled then null; end;
  end loop;
end $$`;

for (const [what, sql, mark] of [
  ['', 'set statement_timeout = 0; select pg_sleep(3600)', 'pg_sleep(3600)'],
  [' even when it catches its cancellation', stubborn, 'pg_sleep(3601)'],
] as const) {
  test(`SQL whose job is cancelled stops in the database${what}`, async (t) => {
    const id = await cron.create({ type: 'sql', sql });
    const jobId = await cron.begin(id);
    await until(() => cron.runsInDatabase(mark));
    await cron.cancel(jobId);
    t.is((await cron.endOf(id)).run.status, 'cancelled');
    await until(async () => !(await cron.runsInDatabase(mark)));
  });
}
