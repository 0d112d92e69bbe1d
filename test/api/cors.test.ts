import test from 'ava';
import { endpoints } from '#api/endpoints.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false, shared: true });

const origin = 'https://shop.example';
const filled = (path: string): string => path.replaceAll(/\{\w+\}/g, '0198c0de-0000-7000-8000-000000000000');
const isOpen = (path: string): boolean => endpoints.some((e) => e.path === path && e.anyOrigin);

test('what takes API keys is open to pages of any origin, without credentials', async (t) => {
  const answer = await platform().client.call('POST', '/api/functions/hello', { headers: { origin } });
  t.is(answer.status, 401);
  t.is(answer.headers.get('access-control-allow-origin'), '*');
  t.is(answer.headers.get('access-control-allow-credentials'), null);
  t.regex(answer.headers.get('access-control-expose-headers') ?? '', /X-Invocation-Id/);
});

test('a preflight of such a path is answered', async (t) => {
  const headers = { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'apikey' };
  const answer = await platform().client.call('OPTIONS', '/api/functions/hello', { headers });
  t.is(answer.status, 204);
  t.is(answer.headers.get('access-control-allow-origin'), '*');
  t.is(answer.headers.get('access-control-allow-credentials'), null);
  t.true(answer.headers.get('access-control-allow-methods')?.split(', ').includes('POST'));
  const allowed = answer.headers.get('access-control-allow-headers')?.toLowerCase().split(', ') ?? [];
  for (const name of ['authorization', 'apikey', 'x-api-key', 'content-type', 'prefer', 'idempotency-key']) {
    t.true(allowed.includes(name), name);
  }
});

for (const { method, path, access } of endpoints) {
  const open = isOpen(path);
  test(`${method.toUpperCase()} ${path} (${access.kind}) ${open ? 'can' : 'cannot'} be called by foreign pages`, async (t) => {
    const headers = { origin, 'access-control-request-method': method.toUpperCase() };
    const preflight = await platform().client.call('OPTIONS', filled(path), { headers });
    const answer = await platform().client.call(method.toUpperCase(), filled(path), { headers: { origin } });
    for (const { headers: given } of [preflight, answer]) {
      t.is(given.get('access-control-allow-origin'), open ? '*' : null);
      t.is(given.get('access-control-allow-credentials'), null);
    }
  });
}

test('the documentation and unknown paths cannot be read by foreign pages', async (t) => {
  for (const path of ['/', '/docs', '/openapi.json', '/api', '/api/functions', '/API/functions/x']) {
    const answer = await platform().client.call('GET', path, { headers: { origin } });
    t.is(answer.headers.get('access-control-allow-origin'), null);
  }
});
