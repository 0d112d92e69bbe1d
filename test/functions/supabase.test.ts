import { FunctionsHttpError, createClient } from '@supabase/supabase-js';
import test from 'ava';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';

const { scene, platform } = useJobsApi(test);

const echo = `exports.handler = (x) => {
  if (x && x.fail) throw new TypeError('told to')
  return x
}`;

const restUrl = ({ project }: ProjectScene): string => `${platform().base}/p/${project.ref}`;

const clientOf = (one: ProjectScene, key: string) =>
  createClient(restUrl(one), key, { auth: { persistSession: false, autoRefreshToken: false } });

for (const kind of ['key', 'publishableKey'] as const) {
  test(`supabase-js invokes functions with a project’s ${kind}`, async (t) => {
    const one = await scene(echo);
    const { functions } = clientOf(one, one.project[kind]);
    for (const body of [{ a: [1, 'ü', null] }, [1], 'plain text', '"quoted"']) {
      const { data, error } = await functions.invoke(one.fn.slug, { body });
      t.is(error, null);
      t.deepEqual(data, body);
    }
    t.is((await functions.invoke(one.fn.slug)).data, null);
  });

  test(`supabase-js is told of failures in its own terms (${kind})`, async (t) => {
    const one = await scene(echo);
    const { functions } = clientOf(one, one.project[kind]);
    const failed = await functions.invoke(one.fn.slug, { body: { fail: true } });
    t.is(failed.data, null);
    t.true(failed.error instanceof FunctionsHttpError);
    const { context } = failed.error as { context: Response };
    t.is(context.status, 500);
    t.regex(context.headers.get('x-invocation-id') ?? '', /^[0-9a-f-]{36}$/);
    const reported = (await context.json()) as Record<string, unknown>;
    t.is(reported['code'], 'function_error');
    t.is(reported['details'] === null, kind === 'publishableKey');
    const unknown = await functions.invoke('no-such-function');
    t.is((unknown.error as { context: Response }).context.status, 404);
  });
}

const describes = `exports.handler = (x, { caller, user }) => {
  if (JSON.stringify(user) !== JSON.stringify(caller.user)) throw new Error('sdk.user is another one');
  return { ...caller, requested: x };
};`;

/** A token of one of the project's own users. */
const tokenOf = async ({ ask }: ProjectScene, sub: string): Promise<string> => {
  const { status, body } = await ask('POST', '/users/tokens', { body: { sub, claims: { team: 'blue' } } });
  if (status !== 201) throw new Error(JSON.stringify(body));
  return String(body.access_token);
};

for (const kind of ['key', 'publishableKey'] as const) {
  test(`supabase-js invokes functions for a signed-in user, beside the project’s ${kind}: the token decides`, async (t) => {
    const one = await scene(describes);
    const sub = crypto.randomUUID();
    const token = await tokenOf(one, sub);
    const options = { accessToken: () => Promise.resolve(token) };
    const { functions } = createClient(restUrl(one), one.project[kind], options);
    const { data, error } = await functions.invoke(one.fn.slug, { body: { n: 1 } });
    t.is(error, null);
    t.like(data, { kind: 'user', requested: { n: 1 } });
    t.like(data.user, { sub, team: 'blue', role: 'authenticated' });
    t.regex(data.key_id, /^[0-9a-f-]{36}$/);
  });
}

test('a function knows which kind of key called it, and that nobody did', async (t) => {
  const one = await scene(describes);
  for (const [key, kind] of [
    ['key', 'secret'],
    ['publishableKey', 'publishable'],
  ] as const) {
    const { data } = await clientOf(one, one.project[key]).functions.invoke(one.fn.slug, { body: {} });
    t.like(data, { kind, user: null });
  }
  const { body } = await one.ask('POST', `/functions/${one.fn.id}/invoke`, { body: { payload: 1 } });
  t.deepEqual(body.result, { kind: 'dashboard', key_id: null, user: null, requested: 1 });
});

test('a user reads the jobs that they started and no others, by a token alone, too', async (t) => {
  const one = await scene("exports.handler = () => { throw new Error('inside') }");
  const [token, other] = [await tokenOf(one, crypto.randomUUID()), await tokenOf(one, crypto.randomUUID())];
  const call = (method: string, path: string, bearer: string, headers = {}) =>
    platform().client.call(method, path, { token: bearer, ...(method === 'POST' && { body: 1 }), headers });
  const started = await call('POST', `/api/functions/${one.fn.slug}`, token, { prefer: 'respond-async' });
  t.is(started.status, 202, started.text);
  const path = `/api/jobs/${started.body.job_id}`;
  await one.jobWhen(String(started.body.job_id), 'failed');
  const seen = await call('GET', path, token);
  t.is(seen.status, 200);
  t.false(seen.text.includes('inside'));
  t.is((await call('GET', path, other)).status, 404);
  const { client } = platform();
  t.is((await client.call('GET', path, { key: one.project.publishableKey })).status, 404);
  t.is((await client.call('GET', path, { key: one.project.key })).status, 200);
});

test('tokens that are forged or of another project are 401 on functions, valid ones are 403 on models', async (t) => {
  const [one, other] = [await scene(describes), await scene(describes)];
  const [token, foreign] = [await tokenOf(one, crypto.randomUUID()), await tokenOf(other, crypto.randomUUID())];
  const chat = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
  const ask = async (path: string, bearer: string, key?: string, body: unknown = chat): Promise<number> => {
    const headers = key === undefined ? {} : { apikey: key };
    return (await platform().client.call('POST', path, { token: bearer, body, headers })).status;
  };
  const invoke = `/api/functions/${one.fn.slug}`;
  t.is(await ask(invoke, foreign, one.project.publishableKey), 401);
  t.is(await ask(invoke, `${token.slice(0, -8)}AAAAAAAA`, one.project.publishableKey), 401);
  for (const path of ['/api/ai/chat', '/v1/chat/completions', '/v1/embeddings']) {
    t.is(await ask(path, token), 403, path);
    t.is(await ask(path, token, one.project.key), 403, path);
    t.is(await ask(path, foreign, one.project.key), 401, path);
  }
});

const requested = `exports.handler = async (payload, { request }) => ({
  method: request.method,
  payload,
  type: (request.headers.get('content-type') ?? '').split(';')[0],
  file: request.headers.get('content-type')?.startsWith('multipart/')
    ? await (await request.formData()).get('file')?.text()
    : undefined,
  text: request.rawBody.length < 100 ? await request.text() : undefined,
})`;

test('supabase-js invokes functions with every method and every type of body that it can send', async (t) => {
  const one = await scene(requested);
  const { functions } = clientOf(one, one.project.publishableKey);
  const form = new FormData();
  form.set('a', '1');
  form.set('file', new File(['inside'], 'x.txt'));
  const bytes = new TextEncoder().encode('bytes');
  for (const [body, expected] of [
    [{ a: 1 }, { payload: { a: 1 }, type: 'application/json', text: '{"a":1}' }],
    ['text', { payload: 'text', type: 'text/plain', text: 'text' }],
    [form, { payload: { a: '1' }, type: 'multipart/form-data', file: 'inside' }],
    [new File(['file'], 'x.txt'), { payload: null, type: 'application/octet-stream', text: 'file' }],
    [new Blob(['blob']), { payload: null, type: 'application/octet-stream', text: 'blob' }],
    [bytes.buffer, { payload: null, type: 'application/octet-stream', text: 'bytes' }],
  ] as const) {
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'] as const) {
      const { data, error } = await functions.invoke(one.fn.slug, { body: body as FormData, method });
      t.is(error, null, `${method}, ${expected.type}`);
      t.like(data, { method, ...expected });
    }
  }
  const { data } = await functions.invoke(`${one.fn.slug}/below?x=1`, { method: 'GET' });
  t.like(data, { method: 'GET', payload: null, text: '' });
});

// A stream is none: supabase-js makes the JSON text `{}` of it.
test('supabase-js sends bytes of a type that its caller names', async (t) => {
  const one = await scene(requested);
  const { functions } = clientOf(one, one.project.publishableKey);
  const headers = { 'Content-Type': 'text/csv' };
  for (const body of [new TextEncoder().encode('1,2').buffer, new Blob(['1,2']), new File(['1,2'], 'x.csv'), '1,2']) {
    const { data, error } = await functions.invoke(one.fn.slug, { body, headers });
    t.is(error, null);
    t.like(data, { method: 'POST', type: 'text/csv', text: '1,2' }, body.constructor.name);
  }
});

test('supabase-js reads what a function answers by its type', async (t) => {
  const one = await scene(`exports.handler = (kind) => {
    if (kind === 'stream') return new Response(new Blob(['data: 1\\n\\n']).stream(), { headers: { 'content-type': 'text/event-stream' } });
    const types = { text: 'text/plain', bytes: 'application/octet-stream', json: 'application/json' };
    return new Response('[1]', { status: 201, headers: { 'content-type': types[kind] } });
  }`);
  const { functions } = clientOf(one, one.project.key);
  const ask = async (kind: string): Promise<unknown> => (await functions.invoke(one.fn.slug, { body: kind })).data;
  t.is(await ask('text'), '[1]');
  t.deepEqual(await ask('json'), [1]);
  t.is(await ((await ask('bytes')) as Blob).text(), '[1]');
  t.is(await ((await ask('stream')) as Response).text(), 'data: 1\n\n');
});

test('a browser’s preflight for what supabase-js sends is answered', async (t) => {
  const one = await scene(echo);
  const headers = 'apikey,authorization,content-type,x-client-info,x-region,x-retry-count';
  const answer = await fetch(`${restUrl(one)}/functions/v1/${one.fn.slug}`, {
    method: 'OPTIONS',
    headers: {
      origin: 'https://app.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': headers,
    },
  });
  t.is(answer.status, 204);
  t.is(answer.headers.get('access-control-allow-origin'), '*');
  const allowed = (answer.headers.get('access-control-allow-headers') ?? '').toLowerCase().split(', ');
  t.deepEqual(
    headers.split(',').filter((header) => !allowed.includes(header)),
    [],
  );
  t.true(answer.headers.get('access-control-allow-methods')?.includes('POST'));
  const called = await fetch(`${restUrl(one)}/functions/v1/${one.fn.slug}`, {
    method: 'POST',
    headers: { origin: 'https://app.example', apikey: one.project.publishableKey },
  });
  t.is(called.headers.get('access-control-allow-origin'), '*');
  t.true(called.headers.get('access-control-expose-headers')?.includes('X-Invocation-Id'));
});

test('the alias knows its project by its path and by its key', async (t) => {
  const one = await scene(echo);
  const other = await scene(echo);
  const { error } = await clientOf(one, other.project.key).functions.invoke(one.fn.slug, { body: {} });
  t.is((error as { context: Response }).context.status, 401);
});
