import test from 'ava';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { dead, seedJobs, seedProjects } from './scene.ts';

const platform = usePlatform(test);

const ask = (method: string, path: string, body?: unknown) =>
  platform().client.call(method, `/ops/api${path}`, { token: opsToken, ...(body !== undefined && { body }) });

interface QueueRow {
  readonly type: string;
  readonly paused: boolean;
  readonly waiting: number;
}

const queueOf = async (type: string) => {
  const { body } = await ask('GET', '/queues');
  return (body.queues as QueueRow[]).find((queue) => queue.type === type);
};

test.before('some jobs ended within the hour', async () => {
  const { db } = platform();
  const [project] = await seedProjects(db, 1);
  const projectId = project?.id ?? '';
  await seedJobs(db, [
    { projectId, status: 'succeeded', secondsAgo: 20, waitMs: 100 },
    { projectId, status: 'succeeded', secondsAgo: 600, waitMs: 100 },
    { projectId, status: 'succeeded', secondsAgo: 601, waitMs: 300 },
    { projectId, status: 'failed', errorCode: 'timeout', secondsAgo: 600, waitMs: 100 },
    { projectId, status: 'failed', errorCode: 'timeout', secondsAgo: 1200, waitMs: 100 },
    { projectId, status: 'failed', errorCode: 'error', secondsAgo: 1200, waitMs: 100 },
    { projectId, status: 'cancelled', errorCode: 'cancelled', secondsAgo: 1200 },
    { projectId, status: 'succeeded', secondsAgo: 2 * 3600, waitMs: 100 },
    dead(projectId, { secondsAgo: 300 }),
  ]);
});

test.serial('queues tell depth, capacity, rates, waits, failures and dead letters of each type', async (t) => {
  await until(async () => (await queueOf('function.invoke'))?.waiting === 0);
  const { body, status } = await ask('GET', '/queues');
  t.is(status, 200);
  t.true(body.redis);
  const queues = new Map((body.queues as QueueRow[]).map((queue) => [queue.type, queue]));
  t.like(queues.get('function.invoke'), {
    pool: 'functions',
    open: true,
    paused: false,
    waiting: 0,
    running: 0,
    slots: 8,
    workers_alive: 1,
    oldest_wait_seconds: null,
    accepted: { minute: 1, hour: 7 },
    finished: { minute: 1, hour: 7 },
    failures: [
      { code: 'timeout', count: 2 },
      { code: 'error', count: 1 },
    ],
    dead: 0,
    wait_ms: { p50: 100, p95: 250 },
  });
  t.like(queues.get('project.provision'), { dead: 1, failures: [{ code: 'dependency_unavailable', count: 1 }] });
});

test.serial('charts show the last hour by minutes', async (t) => {
  const { body } = await ask('GET', '/charts');
  t.is(body.minutes.length, 60);
  const series = (body.types as { type: string; accepted: number[] }[]).find(({ type }) => type === 'function.invoke');
  const sums = Object.fromEntries(
    ['accepted', 'succeeded', 'failed'].map((name) => [
      name,
      (Reflect.get(series ?? {}, name) as number[]).reduce((sum, value) => sum + value, 0),
    ]),
  );
  t.deepEqual(sums, { accepted: 7, succeeded: 3, failed: 3 });
  const waits = (Reflect.get(series ?? {}, 'p95_wait_ms') as (number | null)[]).filter((wait) => wait !== null);
  t.true(waits.length >= 2 && waits.every((wait) => wait >= 100 && wait <= 300));
});

test.serial('workers are listed with their slots', async (t) => {
  await until(async () => (await ask('GET', '/workers')).body.workers.length === 1);
  const { body } = await ask('GET', '/workers');
  const [worker] = body.workers;
  t.deepEqual(worker.jobs, []);
  t.regex(worker.sandbox.javascript, /^(?:strict|best-effort)$/);
  t.like(
    worker.queues.find((queue: { type: string }) => queue.type === 'function.invoke'),
    { slots: 8, running: 0 },
  );
});

test.serial('a paused type is not run for anybody until it is resumed', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const fn = await client.deploy(owner, project, 'export const handler = () => 17;');
  t.deepEqual((await ask('POST', '/queues/function.invoke/pause')).body, { type: 'function.invoke', paused: true });
  await until(async () => (await queueOf('function.invoke'))?.paused === true);
  const path = `/projects/${project.id}/functions/${fn.id}/invoke`;
  const started = await client.call('POST', path, {
    token: owner.token,
    body: { payload: 1 },
    headers: { prefer: 'respond-async' },
  });
  const job = () => ask('GET', `/jobs/${started.body.job_id}`);
  await until(async () => (await job()).body.place?.state === 'waiting');
  t.is((await job()).body.place.reason, 'paused');
  t.is((await ask('POST', '/queues/function.invoke/resume')).body.paused, false);
  await until(async () => (await job()).body.status === 'succeeded');
  t.is((await job()).body.attempt, 1);
});

test('a type that is not one is 404 in the path, 400 in a query', async (t) => {
  t.is((await ask('POST', '/queues/nonsense/pause')).status, 404);
  t.is((await ask('GET', '/projects?type=nonsense')).status, 400);
  t.is((await ask('POST', '/queues/function.invoke/pause', { more: 1 })).status, 400);
});

test('the live stream sends snapshots while someone listens', async (t) => {
  const stop = new AbortController();
  const response = await fetch(`${platform().base}/ops/api/live`, {
    headers: { authorization: `Bearer ${opsToken}` },
    signal: stop.signal,
  });
  t.is(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const snapshots = () => text.split('\n\n').filter((event) => event.startsWith('event: snapshot\ndata: '));
  while (snapshots().length < 3) text += (await reader?.read())?.value ?? '';
  const [first = ''] = snapshots();
  const snapshot = JSON.parse(first.replace('event: snapshot\ndata: ', '')) as { queues: QueueRow[] };
  t.true(snapshot.queues.some(({ type }) => type === 'function.invoke'));
  stop.abort();
});

test('Bull Board shows what BullMQ has and changes nothing', async (t) => {
  const { call } = platform().client;
  const page = await call('GET', '/ops/bullmq', { token: opsToken });
  t.is(page.status, 200);
  t.regex(page.headers.get('content-security-policy') ?? '', /default-src 'none'/);
  const { body } = await call('GET', '/ops/bullmq/api/queues?activeQueue=function.invoke&page=1', { token: opsToken });
  const queue = (body.queues as { name: string; readOnlyMode: boolean }[]).find(
    ({ name }) => name === 'function.invoke',
  );
  t.true(queue?.readOnlyMode);
  const refused = await call('PUT', '/ops/bullmq/api/queues/function.invoke/pause', { token: opsToken });
  t.is(refused.status, 405);
  const script = /src="(static\/js\/main[^"]+)"/.exec(page.text)?.[1];
  t.is((await call('GET', `/ops/bullmq/${script}`, { token: opsToken })).status, 200);
});

test.serial('the global limit of a type is set, shown and given back', async (t) => {
  const put = (limit: unknown) => ask('PUT', '/queues/email.send/limit', { limit });
  t.like(await put(3), { status: 200, body: { type: 'email.send', limit: 3, own_limit: 3 } });
  await until(async () => {
    const queue = (await ask('GET', '/queues')).body.queues.find((one: QueueRow) => one.type === 'email.send');
    return queue.limit === 3 && queue.own_limit === 3 && queue.window === 3;
  });
  t.like(await put(null), { status: 200, body: { limit: null, own_limit: null } });
  await until(async () => {
    const queue = (await ask('GET', '/queues')).body.queues.find((one: QueueRow) => one.type === 'email.send');
    return queue.limit === null && queue.window > 3;
  });
  for (const bad of [0, -1, 1.5, '3', undefined]) t.is((await put(bad)).status, 400);
  t.is((await ask('PUT', '/queues/nonsense/limit', { limit: 1 })).status, 404);
  const unsigned = await platform().client.call('PUT', '/ops/api/queues/email.send/limit', { body: { limit: 1 } });
  t.is(unsigned.status, 401);
});
