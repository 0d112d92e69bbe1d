import test from 'ava';
import { closeLostCalls } from '#domain/ai/usage/call-store.ts';
import { createCallLog } from '#domain/ai/usage/call-log.ts';
import { openControlDb } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { startProxyTo } from '#test/support/tcp-proxy.ts';
import { until } from '#test/support/until.ts';
import { closeForgotten, madeEnd, madeIntent, rowsOf, silent, useUsageScene } from './usage-scene.ts';

const scene = useUsageScene(test);

test('a call is a row from its beginning on, and the same row holds its end', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  const call = log.begin(madeIntent(project, { reserveNanoUsd: 40 }));
  await call.recorded;
  t.like((await rowsOf(db, project))[0], { status: 'open', reserved_nano_usd: 40, cost_nano_usd: null });
  call.end(madeEnd());
  await log.settled();
  const rows = await rowsOf(db, project);
  t.is(rows.length, 1);
  t.like(rows[0], { status: 'success', reserved_nano_usd: 0, cost_nano_usd: 10 });
});

test('the first word on how a call ended counts', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  const call = log.begin(madeIntent(project));
  call.end(madeEnd({ status: 'client_closed' }));
  call.end(madeEnd({ status: 'success' }));
  await call.recorded;
  await log.settled();
  t.deepEqual(
    (await rowsOf(db, project)).map(({ status }) => status),
    ['client_closed'],
  );
});

test('thousands of calls at once are a row each, with their own ends', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  const calls = Array.from({ length: 3000 }, (_, n) => ({ n, call: log.begin(madeIntent(project)) }));
  await Promise.all(
    calls.map(async ({ n, call }) => {
      if (n % 2 === 0) await call.recorded;
      call.end(madeEnd({ costNanoUsd: n }));
    }),
  );
  await log.settled();
  const rows = await rowsOf(db, project);
  t.is(rows.length, 3000);
  t.deepEqual(
    rows.map((row) => row.cost_nano_usd),
    calls.map(({ n }) => n),
  );
});

test('a call that Postgres refuses fails by itself, those beside it are recorded', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  const good = Array.from({ length: 20 }, () => log.begin(madeIntent(project)));
  const bad = log.begin(madeIntent(project, { model: 'a\0b' }));
  const alsoGood = Array.from({ length: 20 }, () => log.begin(madeIntent(project)));
  await t.throwsAsync(bad.recorded);
  await Promise.all([...good, ...alsoGood].map(({ recorded }) => recorded));
  for (const call of [...good, bad, ...alsoGood]) call.end(madeEnd());
  await log.settled();
  const rows = await rowsOf(db, project);
  t.is(rows.length, 40);
  t.true(rows.every(({ status }) => status === 'success'));
});

test('numbers that no provider should give are kept within bounds and hold up nothing', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  for (const tokens of [Number.NaN, -1, Infinity, 1e20, 1.5]) {
    const usage = { prompt_tokens: tokens, completion_tokens: tokens };
    log.begin(madeIntent(project)).end(madeEnd({ usage, costNanoUsd: tokens, latencyMs: tokens }));
  }
  await log.settled();
  const rows = await rowsOf(db, project);
  t.deepEqual(
    rows.map((row) => row.cost_nano_usd),
    [null, null, 1e13, 1e13, 2],
  );
});

const proxied = async () => {
  const { proxy, url } = await startProxyTo(scene().url);
  const db = openControlDb({ url, connections: 4, log: silent });
  // A call waits 2 s for its record; on a busy machine a first connection can take longer.
  await db.query('select 1');
  const close = async (): Promise<void> => {
    await db.close();
    await proxy.close();
  };
  return { proxy, db, close };
};

for (const fault of ['refuse', 'hang'] as const) {
  test(`while Postgres is away (${fault}) calls are refused with 503; their ends are recorded once it is back`, async (t) => {
    const { db, createProject } = scene();
    const project = await createProject();
    const way = await proxied();
    const log = createCallLog({ db: way.db, log: silent });
    const before = log.begin(madeIntent(project));
    await before.recorded;
    await way.proxy[fault]();
    before.end(madeEnd({ costNanoUsd: 7 }));
    const meanwhile = log.begin(madeIntent(project));
    const error = await t.throwsAsync<ServiceError>(meanwhile.recorded, { instanceOf: ServiceError });
    t.is(error?.code, 'dependency_unavailable');
    meanwhile.end(madeEnd());
    await way.proxy.restore();
    await log.settled();
    const rows = await rowsOf(db, project);
    t.deepEqual(
      rows.map(({ status, error_code: code }) => [status, code]),
      [
        ['success', null],
        ['error', 'dependency_unavailable'],
      ],
    );
    await log.close();
    await way.close();
  });
}

test('when too many ends wait, further calls are given up as incomplete', async (t) => {
  const { db, createProject } = scene();
  const project = await createProject();
  const way = await proxied();
  const log = createCallLog({ db: way.db, log: silent, maxWaiting: 2 });
  const calls = Array.from({ length: 6 }, () => log.begin(madeIntent(project)));
  await Promise.all(calls.map(({ recorded }) => recorded));
  await way.proxy.refuse();
  for (const call of calls) call.end(madeEnd());
  await way.proxy.restore();
  await log.settled();
  await closeForgotten(db, project);
  const statuses = (await rowsOf(db, project)).map(({ status }) => status);
  t.is(statuses.length, 6);
  t.is(statuses.filter((status) => status === 'success').length, 2);
  t.is(statuses.filter((status) => status === 'incomplete').length, 4);
  await log.close();
  await way.close();
});

test('calls of a process that is not seen any more are closed as incomplete, a real end counts all the same', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  const intents = [madeIntent(project), madeIntent(project)];
  const calls = intents.map((intent) => log.begin(intent));
  await Promise.all(calls.map(({ recorded }) => recorded));
  await closeLostCalls(db, 1000);
  t.deepEqual(
    (await rowsOf(db, project)).map(({ status }) => status),
    ['open', 'open'],
  );
  await closeForgotten(db, project);
  t.deepEqual(
    (await rowsOf(db, project)).map(({ status, cost_nano_usd: cost }) => [status, cost]),
    [
      ['incomplete', null],
      ['incomplete', null],
    ],
  );
  calls[0]?.end(madeEnd());
  await log.settled();
  await closeLostCalls(db, 1000);
  t.deepEqual(
    (await rowsOf(db, project)).map(({ status, cost_nano_usd: cost }) => [status, cost]),
    [
      ['success', 10],
      ['incomplete', null],
    ],
  );
});

test('a log that is closed says so: what it left open is given up at once', async (t) => {
  const { db, createProject, openLog } = scene();
  const project = await createProject();
  const log = openLog();
  const [ended, open] = [log.begin(madeIntent(project)), log.begin(madeIntent(project))];
  await open.recorded;
  ended.end(madeEnd());
  await log.close();
  await until(async () => {
    await closeLostCalls(db, 1000);
    return (await rowsOf(db, project)).every(({ status }) => status !== 'open');
  });
  t.deepEqual(
    (await rowsOf(db, project)).map(({ status }) => status),
    ['success', 'incomplete'],
  );
});
