import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import test from 'ava';
import { Redis } from 'ioredis';
import { startApi } from '#api/api.ts';
import type { Deps } from '#api/deps.ts';
import { jobEvents, maxListenMs, maxListenersOfProject, maxListenersOfUser } from '#api/streams/job-events.ts';
import { eventText, openEventStream } from '#api/streams/sse.ts';
import { newId } from '#lib/ids.ts';
import { signalsOn } from '#queues/signals.ts';
import { memoryLog } from '#test/support/platform.ts';
import { listen } from '#test/support/sse.ts';
import { until } from '#test/support/until.ts';
import { type ProjectScene, endless, useJobsApi } from './scene.ts';

const { platform, scene, hold } = useJobsApi(test);

const eventsOf = ({ user, project }: ProjectScene, jobId: string, base = platform().base) =>
  listen(`${base}/projects/${project.id}/jobs/${jobId}/events`, user.token);

// Alone: the functions of everybody wait meanwhile.
test.serial(
  'who follows a waiting job hears of its start and its end with the result, then the answer ends',
  async (t) => {
    const at = await scene('exports.handler = () => JSON.rawJSON("9007199254740993")');
    await hold('pause');
    const id = await at.begin();
    const source = await eventsOf(at, id);
    t.is(source.status, 200);
    t.is(source.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    t.is(source.headers.get('cache-control'), 'no-store');
    await until(() => source.events.length === 1);
    await hold('resume');
    await source.end;
    t.deepEqual(
      source.events.map(({ event, data }) => [event, data.status, data.attempt]),
      [
        ['status', 'queued', 0],
        ['status', 'running', 1],
        ['status', 'succeeded', 1],
      ],
    );
    t.like(source.events[2]?.data, { error: null, result: { status: 'success' } });
    t.is(source.events[1]?.data.result, null);
  },
);

test('who comes late is told of the end at once', async (t) => {
  const at = await scene('exports.handler = () => { throw new TypeError("no") }');
  const id = await at.begin();
  await at.jobWhen(id, 'failed');
  const source = await eventsOf(at, id);
  await source.end;
  t.is(source.events.length, 1);
  t.like(source.events[0], { event: 'status', data: { status: 'failed', attempt: 1 } });
  t.like(source.events[0]?.data.error, { code: 'error', message: 'no' });
});

test('whoever begins to listen at the moment in which a job starts or ends misses neither', async (t) => {
  const at = await scene('exports.handler = () => 1');
  for (let round = 0; round < 12; round += 1) {
    const followed = Array.from({ length: 6 }, async (_, place) => {
      const id = await at.begin();
      // Each listener comes a little later than the one before.
      for (let turn = 0; turn < place * round; turn += 1) await turnOfTheLoop();
      const source = await eventsOf(at, id);
      await source.end;
      return source.events.map(({ data }) => String(data.status));
    });
    for (const statuses of await Promise.all(followed)) {
      t.is(statuses.at(-1), 'succeeded');
      t.deepEqual(
        statuses,
        ['queued', 'running', 'succeeded'].filter((status) => statuses.includes(status)),
        'in order, and each once',
      );
    }
  }
});

test('a long result is left to the job itself', async (t) => {
  const at = await scene('exports.handler = () => "x".repeat(400_000)');
  const id = await at.begin();
  const early = await eventsOf(at, id);
  const { result } = await at.jobWhen(id, 'succeeded');
  t.is(result.result.length, 400_000);
  const late = await eventsOf(at, id);
  await Promise.all([early.end, late.end]);
  for (const { events } of [early, late]) {
    t.like(events.at(-1), { event: 'status', data: { status: 'succeeded', result: null, error: null } });
  }
});

test('progress and log lines are told as they come; a cancelled job ends the answer', async (t) => {
  const at = await scene(endless);
  const id = await at.begin();
  await at.jobWhen(id, 'running');
  await platform().db.query('update jobs set progress = 10 where id = $1', [id]);
  const [first, second] = [await eventsOf(at, id), await eventsOf(at, id)];
  await until(() => first.events.length === 1 && second.events.length === 1);
  t.like(first.events[0]?.data, { status: 'running', attempt: 1, progress: 10 });
  const redis = new Redis(platform().config.REDIS_URL);
  const signals = signalsOn(redis, platform().config.PLINTH_REDIS_PREFIX);
  signals.announce(id, { event: 'progress', progress: 40 });
  signals.announce(id, { event: 'log', ts: '2026-01-01T00:00:00.000Z', level: 'info', message: 'two\nlines' });
  await until(() => first.events.length === 3 && second.events.length === 3);
  redis.disconnect();
  t.deepEqual(first.events.slice(1), [
    { event: 'progress', data: { progress: 40 } },
    { event: 'log', data: { ts: '2026-01-01T00:00:00.000Z', level: 'info', message: 'two\nlines' } },
  ]);
  await at.ask('POST', `/jobs/${id}/cancel`);
  await Promise.all([first.end, second.end]);
  t.like(first.events.at(-1), { event: 'status', data: { status: 'cancelled' } });
});

test('a job of somebody else or of nobody is not there', async (t) => {
  const at = await scene('exports.handler = () => 1');
  const other = await scene('exports.handler = () => 1');
  const id = await at.begin();
  const strange = { ...at, user: other.user };
  t.is((await eventsOf(strange, id)).status, 404);
  t.is((await eventsOf({ ...other }, id)).status, 404);
});

test('a project has so many listeners at a time; who leaves makes room', async (t) => {
  const at = await scene(endless);
  const id = await at.begin();
  await at.jobWhen(id, 'running');
  const all = await Promise.all(Array.from({ length: maxListenersOfProject }, () => eventsOf(at, id)));
  t.true(all.every(({ status }) => status === 200));
  const refused = await eventsOf(at, id);
  t.is(refused.status, 429);
  t.regex(refused.headers.get('retry-after') ?? '', /^\d+$/);
  all[0]?.close();
  const again = await until(async () => {
    const source = await eventsOf(at, id);
    return source.status === 200 && source;
  });
  await at.ask('POST', `/jobs/${id}/cancel`);
  await Promise.all([again, ...all].map(({ end }) => end));
});

/** A job that neither runs nor ends by itself. */
const addWaiting = async (projectId: string): Promise<string> => {
  const id = newId();
  await platform().db.query(
    `insert into jobs (id, project_id, type, status, data, request_id, next_run_at)
     values ($1, $2, 'function.invoke', 'queued', '{}', 'r', now() + interval '1 hour')`,
    [id, projectId],
  );
  return id;
};

test('a user has so many listeners in all projects together, and takes nobody else’s places', async (t) => {
  const at = await scene(endless);
  const jobs = [await addWaiting(at.project.id)];
  const projects = [at.project];
  while (projects.length * maxListenersOfProject <= maxListenersOfUser) {
    const project = await platform().client.createProject(at.user);
    projects.push(project);
    jobs.push(await addWaiting(project.id));
  }
  const listenTo = (i: number) => {
    const which = Math.floor(i / maxListenersOfProject);
    return eventsOf({ ...at, project: projects[which] ?? at.project }, jobs[which] ?? '');
  };
  const all = await Promise.all(Array.from({ length: maxListenersOfUser }, (_, i) => listenTo(i)));
  t.true(all.every(({ status }) => status === 200));
  t.is((await listenTo(maxListenersOfUser)).status, 429);
  const other = await scene(endless);
  const foreign = await eventsOf(other, await addWaiting(other.project.id));
  t.is(foreign.status, 200);
  for (const source of [foreign, ...all]) source.close();
  await until(async () => (await listenTo(maxListenersOfUser)).status === 200);
});

test('a listener who cannot subscribe gives the place back', async (t) => {
  const unsubscribed = new Error('nothing can be heard');
  const row = { id: newId(), project_id: newId(), status: 'queued', attempt: 0 };
  const deps = {
    db: platform().db,
    log: memoryLog().log,
    health: { accepting: () => true },
    jobs: { get: () => Promise.resolve(row) },
    subscriber: {
      follow: () => {
        throw unsubscribed;
      },
    },
  } as unknown as Deps;
  for (let i = 0; i <= maxListenersOfProject; i += 1) {
    const requested = { projectId: row.project_id, jobId: row.id, userId: newId(), signInId: newId() };
    t.is(await t.throwsAsync(jobEvents(deps, requested)), unsubscribed);
    await turnOfTheLoop();
  }
});

test('an API that stops ends what it tells', async (t) => {
  const at = await scene(endless);
  const id = await at.begin();
  await at.jobWhen(id, 'running');
  const api = await startApi(platform().config, memoryLog().log);
  const source = await eventsOf(at, id, `http://127.0.0.1:${api.port}`);
  await until(() => source.events.length === 1);
  await Promise.all([api.stop(), source.end]);
  t.is(source.events.length, 1);
  await at.ask('POST', `/jobs/${id}/cancel`);
});

test('a HEAD request takes nobody’s place', async (t) => {
  const at = await scene(endless);
  const id = await at.begin();
  const path = `/jobs/${id}/events`;
  for (let i = 0; i <= maxListenersOfProject; i += 1) t.is((await at.ask('HEAD', path)).status, 200);
  await at.ask('POST', `/jobs/${id}/cancel`);
});

test('a reader that does not read is dropped, once, and takes no more', async (t) => {
  let closed = 0;
  const stream = openEventStream({ goesOn: () => true, maxMs: 60_000, onClose: () => (closed += 1) });
  for (let i = 0; i < 1000 && !stream.body.destroyed; i += 1) stream.send('log', 'x'.repeat(1000));
  t.true(stream.body.destroyed);
  if (closed === 0) await once(stream.body, 'close');
  stream.send('log', 'more');
  stream.end();
  t.is(closed, 1);
  t.true(stream.body.readableLength < 300_000);
});

test('one long event is no reader that does not read', async (t) => {
  const stream = openEventStream({ goesOn: () => true, maxMs: 60_000, onClose: () => undefined });
  const long = 'x'.repeat(400_000);
  stream.send('log', long);
  stream.end();
  t.is(await text(stream.body), eventText('log', long));
});

test('a stream ends when its time is over: who has signed out hears no more after five minutes', async (t) => {
  const stream = openEventStream({ goesOn: () => true, maxMs: 0, onClose: () => undefined });
  t.is(await text(stream.body), '');
  t.true(maxListenMs <= 5 * 60_000);
});
