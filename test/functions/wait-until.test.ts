import test from 'ava';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';
import { until } from '#test/support/until.ts';

const { scene, platform } = useJobsApi(test);

const languages = ['javascript', 'python'] as const;
type Language = (typeof languages)[number];

/** The scene with a table `signals`, by which a test and what goes on after an answer wait for each other. */
const sceneIn = async (language: Language, code: Readonly<Record<Language, string>>): Promise<ProjectScene> => {
  const one = await scene(`exports.handler = (sql, { db }) => db.query(sql);`);
  await invoked(one, 'create table signals (name text primary key)');
  const { client } = platform();
  const fn = await client.deploy(one.user, one.project, code[language], { language, timeout_ms: 20_000 });
  return { ...one, fn, sql: one.fn } as ProjectScene & { sql: ProjectScene['fn'] };
};

const invoked = async (one: ProjectScene, payload: unknown, fn = one.fn) =>
  (await platform().client.invoke(one.user, one.project, fn, payload)).body;

const signal = (one: ProjectScene, name: string) =>
  invoked(one, `insert into signals values ('${name}')`, (one as ProjectScene & { sql: ProjectScene['fn'] }).sql);

const call = ({ project, fn }: ProjectScene, payload: object, headers: Readonly<Record<string, string>> = {}) =>
  fetch(`${platform().base}/api/functions/${fn.slug}`, {
    method: 'POST',
    body: JSON.stringify(payload),
    headers: { apikey: project.key, 'content-type': 'application/json', ...headers },
  });

const statusOf = async (one: ProjectScene, id: string | null) =>
  (await one.ask('GET', `/functions/${one.fn.id}/invocations/${id}`)).body as Record<string, unknown>;

const ended = (one: ProjectScene, id: string | null) =>
  until(async () => {
    const found = await statusOf(one, id);
    return !['queued', 'running', undefined].includes(found['status'] as string) && found;
  });

/** Answers, and goes on until the test says so; then it does as the payload says. */
const working = {
  javascript: `
    const later = async (payload, { db }) => {
      console.log('waiting');
      while (payload.until && !(await db.queryOne('select 1 from signals where name = $1', [payload.until]))) await new Promise((r) => setTimeout(r, 20));
      if (payload.forever) await new Promise((r) => setTimeout(r, 1e8));
      if (payload.fail) throw new RangeError(payload.fail);
      console.log('done');
    };
    exports.handler = (payload, sdk) => {
      for (let n = 0; n < (payload.times ?? 1); n += 1) sdk.waitUntil(later(payload, sdk));
      if (payload.nested) sdk.waitUntil(Promise.resolve().then(() => sdk.waitUntil(later(payload, sdk))));
      if (payload.refuse) throw new TypeError('refused');
      if (payload.response) return new Response(payload.response, { status: 201, headers: { 'x-own': 'yes' } });
      return { answered: true };
    };`,
  python: `
import time

def later(payload, sdk):
    print('waiting')
    while payload.get('until') and not sdk.db.query_one('select 1 from signals where name = %s', [payload['until']]):
        time.sleep(0.02)
    if payload.get('forever'):
        time.sleep(1e6)
    if payload.get('fail'):
        raise IndexError(payload['fail'])
    print('done')

def handler(payload, sdk):
    for _ in range(payload.get('times', 1)):
        sdk.wait_until(later, payload, sdk)
    if payload.get('nested'):
        sdk.wait_until(lambda: sdk.wait_until(later, payload, sdk))
    if payload.get('refuse'):
        raise TypeError('refused')
    if payload.get('response'):
        return sdk.Response(payload['response'], 201, {'x-own': 'yes'})
    return {'answered': True}
`,
};

for (const language of languages) {
  test(`${language}: the caller has the answer while work goes on, and the log of the run has all of it`, async (t) => {
    const one = await sceneIn(language, working);
    const answer = await call(one, { until: 'go' });
    t.deepEqual([answer.status, await answer.json()], [200, { answered: true }]);
    t.regex(answer.headers.get('content-type') ?? '', /^application\/json/);
    const id = answer.headers.get('x-invocation-id');
    t.is((await statusOf(one, id))['status'], 'running');
    await signal(one, 'go');
    const run = await ended(one, id);
    t.is(run['status'], 'success');
    t.deepEqual(
      (run['logs'] as { message: string }[]).map(({ message }) => message),
      ['waiting', 'done'],
    );
    const job = (await one.ask('GET', `/jobs/${id}`)).body as { status: string; result: { result: unknown } };
    t.deepEqual([job.status, job.result.result], ['succeeded', { answered: true }]);
  });

  test(`${language}: a response goes out at once, too, and work may begin other work`, async (t) => {
    const one = await sceneIn(language, working);
    const answer = await call(one, { until: 'go', nested: true, response: 'made' });
    t.deepEqual([answer.status, answer.headers.get('x-own'), await answer.text()], [201, 'yes', 'made']);
    await signal(one, 'go');
    const run = await ended(one, answer.headers.get('x-invocation-id'));
    t.is((run['logs'] as { message: string }[]).filter(({ message }) => message === 'done').length, 2);
  });

  test(`${language}: what fails after the answer is the end of the run, and no part of the answer`, async (t) => {
    const one = await sceneIn(language, working);
    const answer = await call(one, { fail: 'late', times: 2 });
    t.deepEqual([answer.status, await answer.json()], [200, { answered: true }]);
    const run = await ended(one, answer.headers.get('x-invocation-id'));
    t.is(run['status'], 'error');
    t.like(run['error'], { name: language === 'python' ? 'IndexError' : 'RangeError', message: 'late' });
    t.regex(JSON.stringify(run['logs']), /"error","message":"[^"]*late/);
  });

  test(`${language}: the time-out holds for what comes after the answer`, async (t) => {
    const one = await sceneIn(language, working);
    await one.ask('PATCH', `/functions/${one.fn.id}`, { body: { timeout_ms: 1500 } });
    const answer = await call(one, { forever: true });
    t.deepEqual([answer.status, await answer.json()], [200, { answered: true }]);
    t.is((await ended(one, answer.headers.get('x-invocation-id')))['status'], 'timeout');
  });

  test(`${language}: whoever asks for the run and not for its answer waits for all of it`, async (t) => {
    const one = await sceneIn(language, working);
    const run = await invoked(one, {});
    t.deepEqual([run.status, run.result], ['success', { answered: true }]);
    t.deepEqual(
      run.logs.map(({ message }: { message: string }) => message),
      ['waiting', 'done'],
    );
    t.is((await invoked(one, { fail: 'x' })).status, 'error');
    const kept = await call(one, {}, { 'idempotency-key': 'one' });
    t.deepEqual([kept.status, await kept.json()], [200, { answered: true }]);
    t.is(kept.headers.get('x-invocation-id') !== null, true);
  });

  test(`${language}: a handler that fails ends as an error, when its other work is done`, async (t) => {
    const one = await sceneIn(language, working);
    const run = await invoked(one, { refuse: true });
    t.deepEqual([run.status, run.error.message], ['error', 'refused']);
    t.regex(JSON.stringify(run.logs), /done/);
  });
}

test('a client that leaves during the answer does not end the work behind it', async (t) => {
  const one = await sceneIn('javascript', {
    ...working,
    javascript: working.javascript.replace('{ answered: true }', '"x".repeat(1000000)'),
  });
  const leaving = new AbortController();
  const answer = await fetch(`${platform().base}/api/functions/${one.fn.slug}`, {
    method: 'POST',
    body: '{"until":"go"}',
    headers: { apikey: one.project.key, 'content-type': 'application/json' },
    signal: leaving.signal,
  });
  leaving.abort();
  await signal(one, 'go');
  const run = await ended(one, answer.headers.get('x-invocation-id'));
  t.is(run['status'], 'success', JSON.stringify(run['error']));
});

test('what cannot be waited for is refused, and the place of the run is held until the work ends', async (t) => {
  const one = await sceneIn('javascript', working);
  const { client } = platform();
  const bad = await client.deploy(one.user, one.project, 'exports.handler = (p, { waitUntil }) => waitUntil(() => 1)');
  t.like((await invoked(one, null, bad)).error, { name: 'TypeError' });
  const badPython = await client.deploy(one.user, one.project, 'def handler(p, sdk): sdk.wait_until(7)', {
    language: 'python',
  });
  t.like((await invoked(one, null, badPython)).error, { name: 'TypeError' });
  const coroutines = await client.deploy(
    one.user,
    one.project,
    `import asyncio
async def later(n):
    await asyncio.sleep(0)
    print('coroutine', n)
async def handler(payload, sdk):
    sdk.wait_until(later(1))
    return 1
def sync(payload, sdk):
    sdk.wait_until(later(2))
    return 2
`,
    { language: 'python' },
  );
  t.is((await invoked(one, null, coroutines)).logs[0].message, 'coroutine 1');
  const turned = await one.ask('PATCH', `/functions/${coroutines.id}`, { body: { entry_point: 'sync' } });
  t.is(turned.status, 200, turned.text);
  t.is((await invoked(one, null, coroutines)).logs[0].message, 'coroutine 2');
  const answers = await Promise.all(Array.from({ length: 5 }, () => call(one, { until: 'go' })));
  t.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  );
  const sixth = await call(one, {}, { prefer: 'respond-async' });
  const { job_id: id } = (await sixth.json()) as { job_id: string };
  t.is((await statusOf(one, id))['status'], 'queued');
  // The project's places are taken, so the test itself writes the row.
  const written = await one.ask('POST', '/db/query', { body: { sql: `insert into signals values ('go')` } });
  t.is(written.status, 200, written.text);
  t.is((await ended(one, id))['status'], 'success');
});
