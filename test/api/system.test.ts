import test from 'ava';
import { opsToken, usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false });
const proxied = usePlatform(test, { worker: false, settings: { PLINTH_TRUST_PROXY: 'on' } });

test('healthz says that the process is alive', async (t) => {
  const answer = await platform().client.call('GET', '/healthz');
  t.is(answer.status, 200);
  t.deepEqual(answer.body, { status: 'ok' });
});

test('readyz names each dependency', async (t) => {
  const answer = await platform().client.call('GET', '/readyz');
  t.is(answer.status, 200);
  const dependencies = { postgres: true, redis: true, storage: true };
  t.deepEqual(answer.body, { ready: true, dependencies, degraded: [], sandbox: null });
});

test('metrics are open to the machine itself', async (t) => {
  const answer = await platform().client.call('GET', '/metrics');
  t.is(answer.status, 200);
  t.regex(answer.headers.get('content-type') ?? '', /^text\/plain; version=/);
  t.regex(answer.text, /^# TYPE plinth_http_request_duration_seconds histogram$/m);
  t.regex(answer.text, /^plinth_process_resident_memory_bytes \d+/m);
});

test('metrics count requests by route, never by path', async (t) => {
  const { call, signUp } = platform().client;
  const { token } = await signUp();
  const id = crypto.randomUUID();
  await call('GET', `/projects/${id}`, { token });
  await call('GET', `/nothing/${id}`);
  const { text } = await call('GET', '/metrics');
  t.regex(text, /_count\{route="GET \/projects\/:project_id",status="4xx"\} \d+/);
  t.regex(text, /_count\{route="other",status="4xx"\} \d+/);
  t.false(text.includes(id));
});

test('metrics need the ops token from anywhere else', async (t) => {
  const elsewhere = { 'x-forwarded-for': '203.0.113.9' };
  const ask = (token?: string, headers: Record<string, string> = elsewhere) =>
    proxied().client.call('GET', '/metrics', { token, headers });
  const without = await ask();
  t.is(without.status, 401);
  t.is(without.body.code, 'unauthenticated');
  t.truthy(without.headers.get('www-authenticate'));
  t.is((await ask('garbage')).status, 401);
  t.is((await ask(opsToken)).status, 200);
  // Entries before the proxy's own came from the caller.
  t.is((await ask(undefined, { 'x-forwarded-for': '127.0.0.1, 203.0.113.9' })).status, 401);
});

test('rest_url follows the host and scheme of the request', async (t) => {
  const { call, signUp, createProject } = proxied().client;
  await proxied().startWorker();
  const user = await signUp();
  const project = await createProject(user);
  const headers = { 'x-forwarded-host': 'api.shop.example', 'x-forwarded-proto': 'https' };
  const seen = await call('GET', `/projects/${project.id}`, { token: user.token, headers });
  t.is(seen.body.rest_url, `https://api.shop.example/p/${project.ref}`);
});
