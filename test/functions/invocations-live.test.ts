import test from 'ava';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { type EventSource, listen } from '#test/support/sse.ts';
import { keepEventsOf } from '#test/support/subscriber.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test, { worker: false });

let stopWorker: (() => Promise<void>) | undefined;

test.before('a worker', async () => {
  stopWorker = await platform().startWorker();
});

const pathOf = ({ fn }: ProjectScene, id: string): string => `/functions/${fn.id}/invocations/${id}`;

const receive = ({ project, user, fn }: ProjectScene, id: string): Promise<EventSource> =>
  listen(`${platform().base}/projects/${project.id}${pathOf({ fn } as ProjectScene, id)}`, user.token, {
    accept: 'text/event-stream',
  });

const messagesOf = ({ events }: EventSource): string[] =>
  events.filter(({ event }) => event === 'log').map(({ data }) => String(data.message));

const counting = `exports.handler = async ({ lines, ms }) => {
  for (let i = 0; i < lines; i++) {
    console.log('line ' + i);
    if (ms) await new Promise((done) => setTimeout(done, ms));
  }
  return lines;
}`;

const expected = (count: number): string[] => Array.from({ length: count }, (_, i) => `line ${i}`);

test.serial(
  'listeners who come early, in between and late hear each line once and in order, and then the end',
  async (t) => {
    const one = await scene(counting);
    const id = await one.begin({ lines: 60, ms: 15 });
    const sources = [await receive(one, id)];
    for (const count of [10, 25, 40]) {
      await until(() => messagesOf(sources[0] as EventSource).length >= count);
      sources.push(await receive(one, id));
    }
    await Promise.all(sources.map(({ end }) => end));
    sources.push(await receive(one, id));
    await sources.at(-1)?.end;
    const { body } = await one.ask('GET', pathOf(one, id));
    for (const source of sources) {
      t.is(source.status, 200);
      t.is(source.headers.get('content-type'), 'text/event-stream; charset=utf-8');
      t.deepEqual(messagesOf(source), expected(60));
      t.deepEqual(
        source.events.filter(({ event }) => event === 'log').map(({ data }) => data as object),
        body.logs,
      );
      const last = source.events.at(-1);
      t.is(last?.event, 'end');
      t.deepEqual(last?.data, body);
      t.is(source.events.length, 61);
    }
  },
);

test.serial('who comes while it runs hears at once what was logged before', async (t) => {
  const one = await scene(
    'exports.handler = () => { console.log("a"); console.log("b"); return new Promise(() => {}) }',
  );
  const id = await one.begin();
  const first = await receive(one, id);
  await until(() => messagesOf(first).length === 2);
  const second = await receive(one, id);
  await until(() => messagesOf(second).length === 2);
  t.is(second.events.length, 2, 'it goes on');
  await one.ask('POST', `/jobs/${id}/cancel`);
  await Promise.all([first.end, second.end]);
  t.deepEqual(messagesOf(second), ['a', 'b']);
  t.like(second.events.at(-1), { event: 'end', data: { status: 'cancelled' } });
});

test.serial('a burst of many lines comes whole, live and afterwards', async (t) => {
  const one = await scene(counting);
  const id = await one.begin({ lines: 4000, ms: 0 });
  const live = await receive(one, id);
  await live.end;
  t.deepEqual(messagesOf(live), expected(4000));
  const late = await receive(one, id);
  await late.end;
  t.deepEqual(messagesOf(late), expected(4000));
});

test.serial('what was logged before a time-out is heard and kept', async (t) => {
  const one = await scene('exports.handler = () => { console.log("before"); for (;;) {} }');
  await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { timeout_ms: 400 } });
  const id = await one.begin();
  const source = await receive(one, id);
  await source.end;
  t.deepEqual(messagesOf(source), ['before']);
  t.like(source.events.at(-1), { event: 'end', data: { status: 'timeout' } });
});

test.serial('a run that nobody may see is not listened to', async (t) => {
  const one = await scene(counting);
  const other = await scene(counting);
  const id = await one.begin({ lines: 1, ms: 0 });
  const source = await receive({ ...one, user: other.user }, id);
  t.is(source.status, 404);
});

test.serial('what was logged before its worker was killed is heard and kept', async (t) => {
  t.timeout(longTestMs);
  await stopWorker?.();
  const worker = startProcess('workers/server.ts', environmentOf(platform().config));
  await worker.ready;
  const one = await scene(
    'exports.handler = () => { console.log("a"); console.error("b"); return new Promise(() => {}) }',
  );
  await keepEventsOf(platform().db, one.project.id);
  const id = await one.begin();
  const source = await receive(one, id);
  await until(async () => (await one.ask('GET', pathOf(one, id))).body.logs?.length === 2);
  worker.child.kill('SIGKILL');
  await worker.end;
  await platform().startWorker();
  await source.end;
  t.deepEqual(messagesOf(source), ['a', 'b']);
  t.like(source.events.at(-1), { event: 'end', data: { status: 'crashed', error: { name: 'crashed' } } });
  const { body } = await one.ask('GET', pathOf(one, id));
  t.like(body, {
    status: 'crashed',
    cpu_ms: null,
    logs: { 0: { level: 'info' }, 1: { level: 'error', message: 'b' } },
  });
  t.true(body.duration_ms > 0);
  const events = await platform().db.query<{ event: string }>(
    'select event from outbox_events where project_id = $1 order by event desc',
    [one.project.id],
  );
  t.deepEqual(
    events.map(({ event }) => event),
    ['functions.invoked', 'functions.error'],
  );
});
