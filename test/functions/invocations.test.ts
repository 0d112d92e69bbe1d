import test from 'ava';
import { type ProjectScene, endless, useJobsApi } from '#test/jobs/scene.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test);

const invoke = ({ ask, fn }: ProjectScene, payload: unknown) =>
  ask('POST', `/functions/${fn.id}/invoke`, { body: { payload } });

/** A run once it is recorded. */
const recorded = ({ ask, fn }: ProjectScene, id: string) =>
  until(async () => {
    const { body } = await ask('GET', `/functions/${fn.id}/invocations/${id}`);
    return !['queued', 'running'].includes(body.status) && (body as Record<string, any>); // oxlint-disable-line typescript/no-explicit-any -- tests look into it
  });

const byPayload = `exports.handler = async (what) => {
  console.log('begins', what);
  if (what === 'error') throw new RangeError('no \\0 such');
  if (what === 'timeout') for (;;) {}
  if (what === 'large') return 'x'.repeat(1100000);
  return { what };
}`;

test('each run has one record, however it ended, with its figures, its error and its log', async (t) => {
  const one = await scene(byPayload);
  await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { timeout_ms: 500 } });
  const expected = { ok: 'success', error: 'error', timeout: 'timeout', large: 'result_too_large' };
  const ids: string[] = [];
  for (const [payload, status] of Object.entries(expected)) {
    const { body } = await invoke(one, payload);
    const run = await recorded(one, body.invocation_id);
    ids.push(body.invocation_id);
    t.like(run, { status, function_id: one.fn.id, version: 2, trigger: 'dashboard', duration_ms: body.duration_ms });
    t.deepEqual(run['logs'], body.logs ?? []);
    t.regex(run['logs'][0].ts, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    t.like(run['logs'][0], { level: 'info', message: `begins ${payload}` });
    t.true(run['cpu_ms'] >= 0 && run['memory_peak_mb'] > 0);
    t.truthy(run['started_at']);
    t.deepEqual(run['error'], body.error ?? null);
  }
  const { body } = await one.ask('GET', `/functions/${one.fn.id}/invocations`);
  t.is(body.total, 4);
  t.deepEqual(
    body.invocations.map(({ id }: { id: string }) => id),
    ids.toReversed(),
  );
  t.false('result' in body.invocations[0] || 'payload' in body.invocations[0]);
});

test('the list is filtered by status, trigger and version, and paged', async (t) => {
  const one = await scene('exports.handler = (x) => { if (x) throw new Error("x") }');
  const { client } = platform();
  await invoke(one, 0);
  await invoke(one, 1);
  await client.call('POST', `/api/functions/${one.fn.slug}`, { key: one.project.key, body: 0 });
  await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { timeout_ms: 900 } });
  await invoke(one, 0);
  const list = async (query: string) => (await one.ask('GET', `/functions/${one.fn.id}/invocations?${query}`)).body;
  await until(async () => (await list('')).total === 4);
  t.is((await list('status=error')).total, 1);
  t.is((await list('status=success')).total, 3);
  t.is((await list('trigger=api')).total, 1);
  t.is((await list('trigger=dashboard&status=success&version=1')).total, 1);
  t.is((await list('version=2')).total, 1);
  const page = await list('limit=2&offset=2');
  t.is(page.total, 4);
  t.is(page.invocations.length, 2);
  for (const query of ['status=fine', 'trigger=me', 'version=0', 'limit=201']) {
    t.is((await one.ask('GET', `/functions/${one.fn.id}/invocations?${query}`)).status, 400, query);
  }
});

test('a list shows the end of a long log, the run itself all of it', async (t) => {
  const one = await scene('exports.handler = (n) => { for (let i = 0; i < n; i++) console.log("line " + i) }');
  const { body } = await invoke(one, 150);
  const run = await recorded(one, body.invocation_id);
  t.is(run['logs'].length, 150);
  t.false(run['logs_truncated']);
  const [listed] = (await one.ask('GET', `/functions/${one.fn.id}/invocations`)).body.invocations;
  t.is(listed.logs.length, 100);
  t.true(listed.logs_truncated);
  t.is(listed.logs.at(-1).message, 'line 149');
});

test('odd text in logs and errors is kept exactly', async (t) => {
  const one = await scene(
    String.raw`exports.handler = () => { console.log('a\0b\u2028\n"\\'); throw new Error('\0 \ud800 \n') }`,
  );
  const { body } = await invoke(one, null);
  const run = await recorded(one, body.invocation_id);
  t.deepEqual(run['logs'], body.logs);
  t.is(run['logs'][0].message, 'a\0b\u2028\n"\\');
  t.deepEqual(run['error'], body.error);
});

test('a run is seen while it waits and while it runs, with its log so far', async (t) => {
  const one = await scene('exports.handler = () => { console.warn("here"); return new Promise(() => {}) }');
  const id = await one.begin();
  const path = `/functions/${one.fn.id}/invocations/${id}`;
  const seen = await until(async () => {
    const { body } = await one.ask('GET', path);
    return body.status === 'running' && body.logs.length > 0 && (body as object);
  });
  t.like(seen, { id, version: 1, trigger: 'dashboard', duration_ms: null, error: null });
  t.like(seen, { logs: { 0: { level: 'warn', message: 'here' } } });
  t.is((await one.ask('GET', `/functions/${one.fn.id}/invocations`)).body.total, 0);
  await one.ask('POST', `/jobs/${id}/cancel`);
  t.like(await recorded(one, id), { status: 'cancelled', logs: { 0: { level: 'warn', message: 'here' } } });
});

test('a run that was cancelled while it waited is recorded once, as cancelled', async (t) => {
  const one = await scene(endless);
  const running = await Promise.all(Array.from({ length: 5 }, () => one.begin()));
  await one.jobWhen(running[0] ?? '', 'running');
  const id = await one.begin();
  t.is((await one.ask('GET', `/functions/${one.fn.id}/invocations/${id}`)).body.status, 'queued');
  await one.ask('POST', `/jobs/${id}/cancel`);
  t.like(await recorded(one, id), { status: 'cancelled', started_at: null, duration_ms: null, logs: [] });
  await Promise.all(running.map((job) => one.ask('POST', `/jobs/${job}/cancel`)));
});

test('a job that is run again by hand has one record, of the last run', async (t) => {
  const one = await scene('exports.handler = () => { console.log("a"); throw new Error("first") }');
  const { body } = await invoke(one, null);
  const first = await recorded(one, body.invocation_id);
  await one.ask('POST', `/jobs/${body.invocation_id}/retry`);
  await until(async () => (await recorded(one, body.invocation_id))['started_at'] !== first['started_at']);
  const again = await recorded(one, body.invocation_id);
  t.is(again['logs'].length, 1);
  t.is((await one.ask('GET', `/functions/${one.fn.id}/invocations`)).body.total, 1);
});

test('a run is found by its id in capital letters, while it runs and afterwards', async (t) => {
  const one = await scene(endless);
  const id = await one.begin();
  await one.jobWhen(id, 'running');
  const path = `/functions/${one.fn.id.toUpperCase()}/invocations/${id.toUpperCase()}`;
  t.like((await one.ask('GET', path)).body, { id, function_id: one.fn.id, status: 'running' });
  await one.ask('POST', `/jobs/${id.toUpperCase()}/cancel`);
  await recorded(one, id);
  t.like((await one.ask('GET', path)).body, { id, status: 'cancelled' });
});

test('of more than 100,000 runs the failures are all found, other filters look among the latest', async (t) => {
  const one = await scene('exports.handler = () => 1');
  // In parts: a statement of seconds, beside a server that takes a second to accept a connection, counts as unanswered.
  for (let from = 1; from <= 100_030; from += 10_003) {
    await platform().db.query(
      `insert into invocations (id, project_id, function_id, version, trigger, status, data, finished_at)
       select ('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, $1, $2, 1,
         case when i <= 20 or i > 100020 then 'webhook' else 'api' end, case when i <= 10 then 'error' else 'success' end,
         'x', now()
       from generate_series($3::int, $3::int + 10002) i`,
      [one.project.id, one.fn.id, from],
    );
  }
  const list = async (query: string) => (await one.ask('GET', `/functions/${one.fn.id}/invocations?${query}`)).body;
  const failures = await list('status=error');
  t.is(failures.total, 10);
  t.is(failures.invocations.length, 10);
  const byWebhook = await list('trigger=webhook');
  t.is(byWebhook.total, 10);
  t.is(byWebhook.invocations.length, 10);
  t.is((await list('status=error&trigger=webhook')).total, 0);
  for (const query of ['', 'status=success', 'version=1']) t.is((await list(query)).total, 100_000, query);
});

test('runs of another function, of another project and unknown ones are not there', async (t) => {
  const one = await scene('exports.handler = () => 1');
  const other = await scene('exports.handler = () => 1');
  const { body } = await invoke(one, null);
  await recorded(one, body.invocation_id);
  const sibling = await platform().client.deploy(one.user, one.project, 'exports.handler = () => 2');
  t.is((await one.ask('GET', `/functions/${sibling.id}/invocations/${body.invocation_id}`)).status, 404);
  t.is((await other.ask('GET', `/functions/${one.fn.id}/invocations/${body.invocation_id}`)).status, 404);
  t.is((await other.ask('GET', `/functions/${one.fn.id}/invocations`)).status, 404);
  t.is((await one.ask('GET', `/functions/${one.fn.id}/invocations/${one.project.id}`)).status, 404);
});
