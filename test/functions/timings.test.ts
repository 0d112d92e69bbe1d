import test from 'ava';
import { until } from '#test/support/until.ts';
import { useJobsApi } from '#test/jobs/scene.ts';
import { BusyTime } from '#workers/runtimes/busy-time.ts';

const { scene, platform } = useJobsApi(test, { shared: true });

const names = ['queue', 'start', 'db', 'fetch', 'cpu'];

interface Timings {
  readonly queue: number;
  readonly start: number;
  readonly db: number;
  readonly fetch: number;
  readonly cpu: number;
}

const working = `exports.handler = async (_, { db }) => {
  await Promise.all([db.query('select pg_sleep(0.2)'), db.query('select pg_sleep(0.2)')]);
  for (const until = Date.now() + 50; Date.now() < until; );
}`;

test('an invocation says where its time went, at its end and in its record', async (t) => {
  const { ask, fn } = await scene(working);
  const { body } = await ask('POST', `/functions/${fn.id}/invoke`, { body: { payload: null } });
  const timings = body.timings as Timings;
  t.true(timings.db >= 200 && timings.db <= Number(body.duration_ms) + 1, JSON.stringify(body));
  t.true(timings.cpu > 0 && timings.queue > 0 && timings.start >= 0);
  t.is(timings.fetch, 0);
  // The answer may come before the end is recorded.
  const kept = await until(async () => {
    const record = await ask('GET', `/functions/${fn.id}/invocations/${body.invocation_id}`);
    return record.body.status === 'success' && record;
  });
  for (const [name, ms] of Object.entries(timings))
    t.true(Math.abs(((kept.body.timings as Record<string, number>)[name] ?? NaN) - ms) < 0.1 + ms / 1000, name);
  const { body: list } = await ask('GET', `/functions/${fn.id}/invocations`);
  t.deepEqual((list.invocations as { timings: Timings }[])[0]?.timings, kept.body.timings);
});

test('Server-Timing is for secret keys and the dashboard, whether the run succeeds or fails', async (t) => {
  const { ask, fn, project } = await scene(`exports.handler = ({ fails }) => { if (fails) throw new Error('x') }`);
  const { client } = platform();
  const url = `/api/functions/${fn.slug}`;
  const given = [
    await ask('POST', `/functions/${fn.id}/invoke`, { body: { payload: {} } }),
    await client.call('POST', url, { key: project.key, body: {} }),
    await client.call('POST', url, { key: project.key, body: { fails: true } }),
  ];
  for (const { headers, text } of given) {
    const header = headers.get('server-timing') ?? '';
    t.deepEqual(
      header.split(', ').map((part) => part.replace(/;dur=[\d.]+$/, '')),
      names,
      text,
    );
  }
  for (const body of [{}, { fails: true }]) {
    const answer = await client.call('POST', url, { key: project.publishableKey, body });
    t.is(answer.headers.get('server-timing'), null);
  }
});

test('time that things spend side by side counts once', async (t) => {
  const time = new BusyTime();
  t.is(time.ms(), 0);
  const first = time.enter();
  const second = time.enter();
  first();
  first();
  const early = time.ms();
  await new Promise(setImmediate);
  t.true(time.ms() > early, 'the second goes on');
  second();
  const end = time.ms();
  await new Promise(setImmediate);
  t.is(time.ms(), end);
  time.reset();
  t.is(time.ms(), 0);
});

test('a value of user code is not taken for timings', async (t) => {
  const { fn, project } = await scene(
    `exports.handler = () => ({ a: 1, duration_ms: 5, timings: { queue: 99999 }, z: ',"duration_ms":1,"timings":{}' })`,
  );
  const answer = await platform().client.call('POST', `/api/functions/${fn.slug}`, { key: project.key, body: {} });
  t.is((answer.body.timings as Partial<Timings>).queue, 99_999);
  t.regex(answer.headers.get('server-timing') ?? '', /^queue;dur=/);
  t.notRegex(answer.headers.get('server-timing') ?? '', /99999/);
});

test('requests of Python count, too, although they leave by the proxy of its sandbox', async (t) => {
  const { ask } = await scene(working);
  const made = await ask('POST', '/functions', {
    body: {
      name: 'snake',
      language: 'python',
      code: `
import urllib.request
def handler(payload, sdk):
    try:
        urllib.request.urlopen('http://example.invalid/', timeout=5)
    except Exception as error:
        return type(error).__name__
`,
    },
  });
  const { body } = await ask('POST', `/functions/${made.body.id}/invoke`, { body: { payload: null } });
  t.true((body.timings as Timings).fetch > 0, JSON.stringify(body));
});
