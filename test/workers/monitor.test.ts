import { connect } from 'node:net';
import { once } from 'node:events';
import test from 'ava';
import { memoryLog, opsToken } from '#test/support/platform.ts';
import { noteFinished } from '#queues/metrics.ts';
import { ConfigError } from '#lib/config.ts';
import { type Monitor, type MonitorOptions, startMonitor } from '#workers/monitor.ts';

const monitors: Monitor[] = [];

const up = (): Promise<string> => Promise.resolve('PONG');
const down = (): Promise<never> => Promise.reject(new Error('away'));
const silent = (): Promise<never> => new Promise(() => undefined);

const start = async (options: Partial<MonitorOptions> = {}) => {
  const checks = { postgres: up, redis: up };
  const { log } = memoryLog();
  const monitor = await startMonitor({ host: '127.0.0.1', port: 0, opsToken, checks, log, ...options });
  monitors.push(monitor);
  return { monitor, base: `http://127.0.0.1:${monitor.port}` };
};

test.after.always('the monitors stop', () => Promise.all(monitors.map((monitor) => monitor.stop())));

const readiness = async (base: string): Promise<{ status: number; body: unknown }> => {
  const answer = await fetch(`${base}/readyz`);
  return { status: answer.status, body: await answer.json() };
};

test('a worker is alive from the start, and ready while it takes jobs', async (t) => {
  const { monitor, base } = await start();
  const alive = await fetch(`${base}/healthz`);
  t.is(alive.status, 200);
  t.deepEqual(await alive.json(), { status: 'ok' });
  const dependencies = { postgres: true, redis: true };
  const notReady = { status: 503, body: { ready: false, dependencies: { ...dependencies, queues: false } } };
  t.deepEqual(await readiness(base), notReady);
  monitor.consuming(true);
  t.deepEqual(await readiness(base), {
    status: 200,
    body: { ready: true, dependencies: { ...dependencies, queues: true } },
  });
  monitor.consuming(false);
  t.deepEqual(await readiness(base), notReady);
});

test('a worker that cannot reach something is not ready and names it', async (t) => {
  const { monitor, base } = await start({ checks: { postgres: silent, redis: down } });
  monitor.consuming(true);
  const dependencies = { postgres: false, redis: false, queues: true };
  t.deepEqual(await readiness(base), { status: 503, body: { ready: false, dependencies } });
});

test('however often it is asked at once, a worker looks once', async (t) => {
  let polls = 0;
  const counted = (): Promise<unknown> => Promise.resolve((polls += 1));
  const { monitor, base } = await start({ checks: { postgres: counted } });
  const before = await Promise.all(Array.from({ length: 20 }, () => readiness(base)));
  t.is(polls, 1);
  t.true(before.every(({ status }) => status === 503));
  // The worker's own state is known without a check.
  monitor.consuming(true);
  t.like(await readiness(base), { status: 200, body: { ready: true, dependencies: { postgres: true } } });
});

test('metrics are what the worker measures, open to the machine itself', async (t) => {
  noteFinished('function.invoke', 'succeeded');
  const { base } = await start();
  const answer = await fetch(`${base}/metrics`);
  t.is(answer.status, 200);
  t.regex(answer.headers.get('content-type') ?? '', /^text\/plain; version=/);
  const text = await answer.text();
  t.regex(text, /^plinth_jobs_finished_total\{type="function\.invoke",outcome="succeeded"\} 1$/m);
  t.regex(text, /^plinth_process_resident_memory_bytes \d+/m);
});

const fromElsewhere = (token?: string): Record<string, string> => ({
  'x-forwarded-for': '203.0.113.9',
  ...(token !== undefined && { authorization: `Bearer ${token}` }),
});

const ask = async (base: string, token?: string): Promise<number> =>
  (await fetch(`${base}/metrics`, { headers: fromElsewhere(token) })).status;

test('metrics need the ops token when a proxy passes the request on', async (t) => {
  const { base } = await start();
  t.is(await ask(base), 401);
  t.is(await ask(base, 'garbage'), 401);
  t.is(await ask(base, opsToken), 200);
  const tokenless = await start({ opsToken: undefined });
  t.is(await ask(tokenless.base, 'undefined'), 401);
});

test('nothing else is there', async (t) => {
  const { base } = await start();
  t.is((await fetch(`${base}/`)).status, 404);
  t.is((await fetch(`${base}/metrics`, { method: 'POST', body: 'x' })).status, 405);
  t.is((await fetch(`${base}/healthz`, { method: 'HEAD' })).status, 200);
});

test('a port that is taken stops the start with the name of the setting', async (t) => {
  const { monitor } = await start();
  const error = await t.throwsAsync(start({ port: monitor.port }), { instanceOf: ConfigError });
  t.regex(error?.message ?? '', /^PLINTH_WORKER_PORT: port \d+ of 127\.0\.0\.1 cannot be had/);
});

test('a connection that stays open does not hold up the stop', async (t) => {
  const { monitor } = await start();
  const socket = connect(monitor.port, '127.0.0.1');
  await once(socket, 'connect');
  socket.on('error', () => undefined);
  const closed = once(socket, 'close');
  await monitor.stop();
  await closed;
  t.pass();
});
