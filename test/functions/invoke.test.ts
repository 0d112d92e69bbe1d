import test from 'ava';
import type { CallOptions, TestProject, TestUser } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

let user: TestUser;
let project: TestProject;

test.before('a project', async () => {
  user = await platform().client.signUp();
  project = await platform().client.createProject(user);
});

const deploy = (code: string, fields: Record<string, unknown> = {}) =>
  platform().client.deploy(user, project, code, fields);

const publicCall = (slug: string, options: CallOptions = {}) =>
  platform().client.call('POST', `/api/functions/${slug}`, { key: project.key, ...options });

/** Functions that end in each way, with what their callers are told. */
const endings = {
  success: { code: 'exports.handler = (x) => ({ got: x })', fields: {}, publicStatus: 200, publicCode: undefined },
  error: {
    code: 'exports.handler = () => {\n  throw new RangeError("out of range")\n}',
    fields: {},
    publicStatus: 500,
    publicCode: 'function_error',
  },
  timeout: {
    code: 'exports.handler = () => { for (;;); }',
    fields: { timeout_ms: 200 },
    publicStatus: 504,
    publicCode: 'function_timeout',
  },
  memory_limit: {
    code: 'exports.handler = () => { const a = []; for (;;) a.push(new Array(100000).fill(a.length)); }',
    fields: { memory_mb: 64, timeout_ms: 30_000 },
    publicStatus: 500,
    publicCode: 'resource_limit',
  },
  result_too_large: {
    code: 'exports.handler = () => "x".repeat(1100000)',
    fields: {},
    publicStatus: 500,
    publicCode: 'resource_limit',
  },
} as const;

for (const [status, { code, fields, publicStatus, publicCode }] of Object.entries(endings)) {
  test(`a run that ends with ${status} is told to members, to keys and by its job`, async (t) => {
    t.timeout(longTestMs);
    const fn = await deploy(code, fields);
    const sync = await platform().client.invoke(user, project, fn, 5);
    t.is(sync.status, 200);
    t.is(sync.body.status, status);
    t.regex(sync.body.invocation_id, /^[0-9a-f-]{36}$/);
    t.true(sync.body.duration_ms >= 0);
    t.deepEqual(sync.body.result, status === 'success' ? { got: 5 } : null);

    const bare = await publicCall(fn.slug, { body: 5 });
    t.is(bare.status, publicStatus);
    t.is(bare.body.code, publicCode);
    t.regex(bare.headers.get('x-invocation-id') ?? '', /^[0-9a-f-]{36}$/);
    t.is(bare.headers.get('x-function-version'), '1');
    if (status === 'success') t.deepEqual(bare.body, { got: 5 });

    const path = `/projects/${project.id}/jobs/${bare.headers.get('x-invocation-id')}`;
    const job = await until(async () => {
      const got = await platform().client.call('GET', path, { token: user.token });
      return got.body.status !== 'running' && got;
    });
    t.is(job.body.status, status === 'success' ? 'succeeded' : 'failed');
    t.is(job.body.error?.code, status === 'success' ? undefined : status);
    t.is(job.body.result.status, status);
  });
}

test('message and stack of an error are told to a secret key only', async (t) => {
  const fn = await deploy('exports.handler = () => {\n  throw new RangeError("inner detail")\n}');
  const secret = await publicCall(fn.slug);
  t.like(secret.body, { code: 'function_error', details: { name: 'RangeError', message: 'inner detail' } });
  t.regex(secret.body.details.stack, /:2:/);
  const publishable = await publicCall(fn.slug, { key: project.publishableKey });
  t.is(publishable.status, 500);
  t.is(publishable.body.code, 'function_error');
  t.is(publishable.body.details, null);
  t.false(publishable.text.includes('inner detail') || publishable.text.includes('RangeError'));
});

test('a publishable key may invoke', async (t) => {
  const fn = await deploy('exports.handler = (x) => x');
  const answer = await publicCall(fn.slug, { key: project.publishableKey, body: { a: [1] } });
  t.is(answer.status, 200);
  t.deepEqual(answer.body, { a: [1] });
});

test('the body of a public invoke is the payload, and no body is null', async (t) => {
  const fn = await deploy('exports.handler = (x) => [x === null, typeof x]');
  t.deepEqual((await publicCall(fn.slug)).body, [true, 'object']);
  for (const [raw, type] of [
    ['null', 'object'],
    ['"text"', 'string'],
    ['[]', 'object'],
    ['false', 'boolean'],
    ['0', 'number'],
  ] as const)
    t.is((await publicCall(fn.slug, { raw })).body[1], type, raw);
  t.is((await publicCall(fn.slug, { raw: '{' })).status, 400);
  const text = { raw: '{"a":1}', headers: { 'content-type': 'text/plain; charset=UTF-8' } };
  t.is((await publicCall(fn.slug, text)).body[1], 'string');
  for (const type of [
    'application/octet-stream',
    'multipart/form-data; boundary=x',
    'text/html',
    'text/plain; charset=latin1',
  ])
    t.deepEqual(
      (await publicCall(fn.slug, { raw: 'x', headers: { 'content-type': type } })).body,
      [true, 'object'],
      type,
    );
  const packed = { raw: 'x', headers: { 'content-encoding': 'gzip' } };
  t.is((await publicCall(fn.slug, packed)).status, 415);
  const path = `/projects/${project.id}/functions/${fn.id}/invoke`;
  t.is((await platform().client.call('POST', path, { token: user.token, ...text })).status, 415);
});

test('a result of undefined is null', async (t) => {
  const fn = await deploy('exports.handler = () => undefined');
  t.is((await publicCall(fn.slug)).text, 'null');
  t.is((await platform().client.invoke(user, project, fn, 1)).body.result, null);
});

test('a result that looks like our own answer comes out whole', async (t) => {
  const tricky = ',"duration_ms":1,"invocation_id":"x"}';
  const fn = await deploy(`exports.handler = () => ({ a: ${JSON.stringify(tricky)}, duration_ms: 5, result: 1 })`);
  t.deepEqual((await publicCall(fn.slug)).body, { a: tricky, duration_ms: 5, result: 1 });
  const throwing = await deploy(
    `exports.handler = () => { console.log(',"duration_ms":'); return { duration_ms: {} }; }`,
  );
  t.deepEqual((await publicCall(throwing.slug)).body, { duration_ms: {} });
});

test('logs come with the answer to members', async (t) => {
  const fn = await deploy('exports.handler = () => { console.log("a", 1); console.error("b"); return 1; }');
  const { body } = await platform().client.invoke(user, project, fn, 1);
  t.deepEqual(
    body.logs.map(({ level, message }: { level: string; message: string }) => [level, message]),
    [
      ['info', 'a 1'],
      ['error', 'b'],
    ],
  );
});

test('an unknown field beside the payload is refused', async (t) => {
  const fn = await deploy('exports.handler = () => 1');
  const path = `/projects/${project.id}/functions/${fn.id}/invoke`;
  for (const body of [{ payload: 1, wait: true }, { data: 1 }, [1], 'x']) {
    const answer = await platform().client.call('POST', path, { token: user.token, body });
    t.is(answer.status, 400, JSON.stringify(body));
  }
});

test('a slug that names nothing, or nothing in this project, is 404', async (t) => {
  const other = await platform().client.createProject(user);
  const theirs = await platform().client.deploy(user, other, 'exports.handler = () => 1');
  for (const slug of ['nothing', theirs.slug, 'UPPER', '..%2f..', 'x'.repeat(64)])
    t.is((await publicCall(slug)).status, 404, slug);
});

test('a function’s address takes each method but OPTIONS, which the platform answers', async (t) => {
  const fn = await deploy('exports.handler = () => 1');
  const call = (method: string) => platform().client.call(method, `/api/functions/${fn.slug}`, { key: project.key });
  for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE']) t.is((await call(method)).status, 200, method);
  const options = await call('OPTIONS');
  t.is(options.status, 204);
  t.regex(options.headers.get('allow') ?? '', /POST.*OPTIONS/);
});

test('a run uses the version that was current when it was accepted', async (t) => {
  // All slots are busy until the change is made, so that the run begins after it.
  const slots = platform().config.PLINTH_FUNCTION_SLOTS;
  const slow = await deploy('exports.handler = () => new Promise((resolve) => setTimeout(resolve, 700, "slow"))');
  const fn = await deploy('exports.handler = () => ({ code: "old", env: process.env.A })', { env_vars: { A: 'old' } });
  const invoke = (id: string) =>
    platform().client.call('POST', `/projects/${project.id}/functions/${id}/invoke`, {
      token: user.token,
      body: { payload: null },
      headers: { prefer: 'respond-async' },
    });
  await Promise.all(Array.from({ length: slots * 2 }, () => invoke(slow.id)));
  const { job_id: id } = (await invoke(fn.id)).body;
  const changed = await platform().client.call('PATCH', `/projects/${project.id}/functions/${fn.id}`, {
    token: user.token,
    body: { code: 'exports.handler = () => ({ code: "new", env: process.env.A })', env_vars: { A: 'new' } },
  });
  t.is(changed.body.version, 2);
  const [row] = await platform().db.query<{ status: string }>('select status from jobs where id = $1', [id]);
  t.is(row?.status, 'queued');
  const job = await until(async () => {
    const got = await platform().client.call('GET', `/projects/${project.id}/jobs/${id}`, { token: user.token });
    return got.body.status === 'succeeded' && got;
  });
  t.deepEqual(job.body.result.result, { code: 'old', env: 'old' });
  const now = await publicCall(fn.slug);
  t.deepEqual(now.body, { code: 'new', env: 'new' });
  t.is(now.headers.get('x-function-version'), '2');
});

const numbered = (n: number): string => `exports.handler = () => [${n}, process.env.N]`;

test('while code is replaced again and again every run sees one whole version', async (t) => {
  const fn = await deploy(numbered(0), { env_vars: { N: '0' } });
  const changes = (async () => {
    for (let n = 1; n <= 10; n += 1)
      await platform().client.call('PATCH', `/projects/${project.id}/functions/${fn.id}`, {
        token: user.token,
        body: { code: numbered(n), env_vars: { N: String(n) } },
      });
  })();
  const runs = await Promise.all(Array.from({ length: 40 }, () => publicCall(fn.slug)));
  await changes;
  for (const { status, body, headers } of runs) {
    t.is(status, 200);
    t.is(String(body[0]), body[1]);
    t.is(headers.get('x-function-version'), String(body[0] + 1));
  }
});

test('a function sees its own env vars and nothing of the platform or its neighbours', async (t) => {
  await deploy('exports.handler = () => 1', { name: 'neighbour', env_vars: { SECRET: 'of-the-neighbour' } });
  const fn = await deploy(
    `exports.handler = async () => {
      const seen = new Set(), texts = [];
      const walk = (value, depth) => {
        if (depth > 6 || value === null || seen.has(value)) return;
        if (typeof value === 'string') { texts.push(value); return; }
        if (typeof value !== 'object' && typeof value !== 'function') return;
        seen.add(value);
        for (const key of Reflect.ownKeys(value)) {
          texts.push(String(key));
          try { walk(value[key], depth + 1); } catch (error) { texts.push(String(error && error.stack)); }
        }
        walk(Object.getPrototypeOf(value), depth + 1);
      };
      walk(globalThis, 0);
      const tries = {};
      for (const name of ['fs', 'net', 'http', 'child_process', 'node:fs', 'worker_threads'])
        try { require(name); tries[name] = 'loaded'; } catch { tries[name] = 'refused'; }
      return { env: { ...process.env }, texts: texts.join('\\n'), tries };
    }`,
    { env_vars: { MINE: 'of-mine' } },
  );
  const { body, text } = await platform().client.invoke(user, project, fn, null);
  t.is(body.status, 'success', text);
  t.deepEqual(body.result.env, { MINE: 'of-mine' });
  t.true(Object.values(body.result.tries).every((outcome) => outcome === 'refused'));
  const { config } = platform();
  const secrets = [config.DATABASE_URL, config.REDIS_URL, config.PLINTH_SECRET_KEYS, 'of-the-neighbour', project.key];
  for (const secret of [...secrets, new URL(config.DATABASE_URL).password, 'ops_test_token'])
    t.false(body.result.texts.includes(secret));
});

test('a function reaches no network', async (t) => {
  const { port } = new URL(platform().base);
  const fn = await deploy(
    `exports.handler = async (url) => {
      const tries = [];
      for (const name of ['fetch', 'WebSocket', 'XMLHttpRequest', 'EventSource'])
        try {
          const api = globalThis[name];
          const made = name === 'fetch' ? await api(url) : new api(url);
          tries.push([name, Boolean(made)]);
        } catch (error) { tries.push([name, false]); }
      return tries;
    }`,
  );
  const { body } = await platform().client.invoke(user, project, fn, `http://127.0.0.1:${port}/healthz`);
  t.is(body.status, 'success');
  for (const [name, reached] of body.result) t.false(reached, name);
});

test('a payload over the limit is refused with the limit and its setting', async (t) => {
  const fn = await deploy('exports.handler = () => 1');
  const answer = await publicCall(fn.slug, { raw: `"${'x'.repeat(6 * 1024 * 1024)}"` });
  t.is(answer.status, 413);
  t.is(answer.body.code, 'payload_too_large');
  t.regex(answer.body.hint, /PLINTH_BODY_LIMIT_FUNCTION/);
});
