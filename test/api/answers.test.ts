import { request } from 'node:http';
import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test);

const call = (...args: Parameters<ReturnType<typeof platform>['client']['call']>): Promise<Answer> =>
  platform().client.call(...args);

test('an unknown path is 404 with the error body', async (t) => {
  for (const path of ['/', '/nothing', '/projects/a/b/c/d/e', '//', '/..', '/%2e%2e/etc/passwd', '/constructor']) {
    isError(t, await call('GET', path), 404, 'not_found');
  }
});

test('paths are told apart by case', async (t) => {
  isError(t, await call('GET', '/HEALTHZ'), 404, 'not_found');
});

test('names that every object has are no files of the documentation', async (t) => {
  for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
    isError(t, await call('GET', `/docs/${name}`), 404, 'not_found');
  }
});

test('another method of a known path is 405 and says which are possible', async (t) => {
  const answer = await call('PUT', '/projects');
  isError(t, answer, 405, 'method_not_allowed');
  t.deepEqual(answer.headers.get('allow')?.split(', ').toSorted(), ['GET', 'HEAD', 'OPTIONS', 'POST']);
  const byId = await call('POST', '/projects/0198c0de-0000-7000-8000-000000000000');
  isError(t, byId, 405, 'method_not_allowed');
  t.deepEqual(byId.headers.get('allow')?.split(', ').toSorted(), ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH']);
  isError(t, await call('PROPFIND', '/projects'), 405, 'method_not_allowed');
});

test('the documentation has methods, too', async (t) => {
  const refused = await call('POST', '/openapi.json');
  isError(t, refused, 405, 'method_not_allowed');
  t.is(refused.headers.get('allow'), 'HEAD, GET, OPTIONS');
  const requested = await call('OPTIONS', '/docs');
  t.is(requested.status, 204);
  t.is(requested.headers.get('allow'), 'HEAD, GET, OPTIONS');
});

test('OPTIONS names the methods of a path', async (t) => {
  const answer = await call('OPTIONS', '/healthz');
  t.is(answer.status, 204);
  t.is(answer.text, '');
  t.deepEqual(answer.headers.get('allow')?.split(', ').toSorted(), ['GET', 'HEAD', 'OPTIONS']);
  isError(t, await call('OPTIONS', '/nothing'), 404, 'not_found');
});

test('HEAD answers as GET does, without the body', async (t) => {
  const [head, get] = await Promise.all([call('HEAD', '/healthz'), call('GET', '/healthz')]);
  t.is(head.status, 200);
  t.is(head.text, '');
  t.is(head.headers.get('content-length'), get.headers.get('content-length'));
  t.is(head.headers.get('content-type'), get.headers.get('content-type'));
  const refused = await call('HEAD', '/auth/me');
  t.is(refused.status, 401);
  t.is(refused.text, '');
  t.is((await call('HEAD', '/nothing')).status, 404);
});

const urlOf = (kib: number): string => `/healthz?q=${'a'.repeat(kib * 1024)}`;

test('a URL of 127 KB passes and one of 129 KB is 414', async (t) => {
  t.is((await call('GET', urlOf(127))).status, 200);
  isError(t, await call('GET', urlOf(129)), 414, 'uri_too_long');
});

test('a 401 carries the challenge, and says so when a credential was given', async (t) => {
  const without = await call('GET', '/auth/me');
  isError(t, without, 401, 'unauthenticated');
  t.is(without.headers.get('www-authenticate'), 'Bearer realm="plinth"');
  const garbage = await call('GET', '/auth/me', { token: 'garbage' });
  isError(t, garbage, 401, 'unauthenticated');
  t.is(garbage.headers.get('www-authenticate'), 'Bearer realm="plinth", error="invalid_token"');
});

test('credentials of other schemes and odd forms are no access tokens', async (t) => {
  const { token } = await platform().client.signUp();
  for (const authorization of ['Basic YTpi', 'Bearer', 'Bearer ', token, `Bearer ${token} x`, `Bearer ${token},`]) {
    isError(t, await call('GET', '/auth/me', { headers: { authorization } }), 401, 'unauthenticated');
  }
  t.is((await call('GET', '/auth/me', { headers: { authorization: `bearer  ${token}` } })).status, 200);
});

test('malformed percent-encoding in a path names nothing', async (t) => {
  const { token } = await platform().client.signUp();
  for (const id of ['%', '%zz', '%ff', '%c3%28', '%ed%a0%80', '%2f', '%2e%2e']) {
    isError(t, await call('GET', `/projects/${id}`, { token }), 404, 'not_found');
  }
});

test('malformed percent-encoding in a query is never a fault of ours', async (t) => {
  const { token } = await platform().client.signUp();
  for (const query of ['org_id=%', 'org_id=%ff', 'org_id=%ed%a0%80', 'limit=%', '%=%', '&&=&', '__proto__[x]=1']) {
    const answer = await call('GET', `/projects?${query}`, { token });
    t.true(answer.status === 200 || answer.status === 400, `${query}: ${answer.text}`);
  }
});

test('NUL in a URL is 400', async (t) => {
  const { token } = await platform().client.signUp();
  isError(t, await call('GET', '/projects?org_id=%00', { token }), 400, 'validation_failed');
  isError(t, await call('POST', '/team/invite/%00/accept', { token }), 400, 'validation_failed');
});

test('numbers of a list out of range are 400 and name the parameter', async (t) => {
  const { token } = await platform().client.signUp();
  for (const query of ['limit=0', 'limit=201', 'limit=-1', 'limit=1.5', 'limit=x', 'limit=1&limit=2', 'limit=1e999']) {
    const answer = await call('GET', `/projects?${query}`, { token });
    isError(t, answer, 400, 'validation_failed');
    t.is(answer.body.details[0].path, 'limit');
  }
  isError(t, await call('GET', '/projects?offset=-1', { token }), 400, 'validation_failed');
  t.is((await call('GET', '/projects?limit=200&offset=1000000&unknown=1', { token })).status, 200);
});

test('numbers of a list are digits and nothing else', async (t) => {
  const { token } = await platform().client.signUp();
  for (const number of ['1e1', '0x10', '0b1', '%2B1', '%201', '1.0', '', 'true', 'null', '[]', '%D9%A1']) {
    for (const name of ['limit', 'offset']) {
      const answer = await call('GET', `/projects?${name}=${number}`, { token });
      isError(t, answer, 400, 'validation_failed');
      t.like(answer.body.details[0], { path: name, message: 'must be a whole number' });
    }
  }
  t.is((await call('GET', '/projects?limit=010&offset=00', { token })).status, 200);
});

test('no answer of an endpoint is kept on the way, whether it went well or not', async (t) => {
  const user = await platform().client.signUp();
  const answers = [
    await call('GET', '/projects', { token: user.token }),
    await call('GET', `/projects/${crypto.randomUUID()}`, { token: user.token }),
    await call('POST', '/projects', { token: user.token, body: {} }),
    await call('GET', '/projects', { token: 'wrong' }),
    await call('POST', '/auth/login', { body: { email: user.email, password: user.password } }),
  ];
  t.deepEqual(
    answers.map(({ status, headers }) => [status, headers.get('cache-control')]),
    [200, 404, 400, 401, 200].map((status) => [status, 'no-store']),
  );
});

test('a request id that fits is kept, in the header and in the error', async (t) => {
  const id = 'My_request-1'.padEnd(64, 'x');
  const answer = await call('GET', '/nothing', { headers: { 'x-request-id': id } });
  t.is(answer.headers.get('x-request-id'), id);
  t.is(answer.body.request_id, id);
});

test('a request id that does not fit is replaced', async (t) => {
  for (const id of ['x'.repeat(65), 'a b', 'a\tb', 'ä', '{"a":1}', 'a,b']) {
    const answer = await call('GET', '/healthz', { headers: { 'x-request-id': id } });
    t.regex(answer.headers.get('x-request-id') ?? '', /^[\da-f-]{36}$/);
  }
});

test('the request id is in the log line of the request', async (t) => {
  const id = 'find-me-in-the-log';
  await call('GET', '/healthz', { headers: { 'x-request-id': id } });
  const line = platform()
    .logged()
    .split('\n')
    .find((entry) => entry.includes(id));
  t.like(JSON.parse(line ?? '{}'), { request_id: id, method: 'GET', path: '/healthz', status: 200 });
});

test('the log shows no token that stands in a path, and no more of a path than a line holds', async (t) => {
  const { token } = await platform().client.signUp();
  const secret = 'plinth_invite_0123456789abcdefghij';
  await call('POST', `/team/invite/${secret}/accept`, { token });
  await call('GET', `/invite/${secret}?token=${secret}`);
  await call('GET', `/long/${'y'.repeat(100_000)}`);
  const log = platform().logged();
  t.false(log.includes('0123456789abcdefghij'));
  t.true(log.includes('/team/invite/plinth_invite_[redacted]/accept'));
  t.false(log.includes('y'.repeat(301)));
});

test('no browser guesses another type for an answer', async (t) => {
  for (const path of ['/healthz', '/nothing', '/docs']) {
    t.is((await call('GET', path)).headers.get('x-content-type-options'), 'nosniff');
  }
});

test('a body beside a GET is passed over', async (t) => {
  const { port } = new URL(platform().base);
  const status = await new Promise((resolve, reject) => {
    const req = request({ port, path: '/healthz', method: 'GET', headers: { 'content-length': 5 } });
    req.once('response', (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    req.once('error', reject);
    req.end('{"a":');
  });
  t.is(status, 200);
});
