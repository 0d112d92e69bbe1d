import test from 'ava';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type RawAnswer, connectTo, parseAnswer, readToEnd, sendRaw } from '#test/support/raw-http.ts';

const platform = usePlatform(test, { worker: false });

const send = (bytes: string | Buffer): Promise<RawAnswer> => sendRaw(platform().base, bytes);

const malformed: Readonly<Record<string, string>> = {
  'text that is not HTTP': 'hello\r\n\r\n',
  'a TLS hello': '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003\r\n\r\n',
  'an unknown method': 'FETCH / HTTP/1.1\r\nHost: x\r\n\r\n',
  'a version that does not exist': 'GET / HTTP/9.9\r\nHost: x\r\n\r\n',
  'a header without a colon': 'GET /healthz HTTP/1.1\r\nHost: x\r\nbroken\r\n\r\n',
  'a space before the colon of a header': 'GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n',
  'NUL in a header': 'GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n',
  'two lengths': 'POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}',
  'a length and chunks':
    'POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'a length that is no number': 'POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n',
  'a negative length': 'POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
  'a request without a host': 'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n',
  'a target that is no path': 'GET healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  'a target that is a broken URL': 'GET http://[bad/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  'a target of another scheme': 'GET file:///etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
  'an asterisk as target': 'OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
};

for (const [what, bytes] of Object.entries(malformed)) {
  test(`${what} is refused with the error body`, async (t) => {
    isError(t, await send(bytes), 400, 'validation_failed');
  });
}

test('a chunk that is no chunk is refused with the error body', async (t) => {
  const head =
    'POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n';
  isError(t, await send(`${head}xyz\r\n`), 400, 'validation_failed');
});

test('headers that are too large are 431, also when the client sends on', async (t) => {
  isError(
    t,
    await send(`GET / HTTP/1.1\r\nHost: x\r\nX-A: ${'a'.repeat(200 * 1024)}\r\n\r\n`),
    431,
    'headers_too_large',
  );
  isError(
    t,
    await send(`GET / HTTP/1.1\r\nHost: x\r\nX-A: ${'a'.repeat(4 * 1024 * 1024)}\r\n\r\n`),
    431,
    'headers_too_large',
  );
});

test('a URL of 129 KB is 414 with the error body', async (t) => {
  const target = `/healthz?${'a'.repeat(129 * 1024)}`;
  isError(t, await send(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`), 414, 'uri_too_long');
});

test('a tunnel is refused with the error body', async (t) => {
  isError(
    t,
    await send('CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n'),
    405,
    'method_not_allowed',
  );
});

test('a whole URL as target is understood', async (t) => {
  const answer = await send('GET http://elsewhere/healthz?x=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
  t.is(answer.status, 200);
  t.deepEqual(answer.body, { status: 'ok' });
});

test('HTTP/1.0 without a host is served', async (t) => {
  t.is((await send('GET /healthz HTTP/1.0\r\n\r\n')).status, 200);
});

test('a host that is no host name is not a fault of ours', async (t) => {
  const { token } = await platform().client.signUp();
  for (const host of ['', '[', 'a b', 'x@y@', '???', 'a'.repeat(10_000), '%00', '127.0.0.1:99999']) {
    const answer = await send(
      `GET /projects HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`,
    );
    t.is(answer.status, 200, host);
  }
});

test('an upgrade that nobody offers is served as a plain request', async (t) => {
  const answer = await send('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close, upgrade\r\nUpgrade: h2c\r\n\r\n');
  t.is(answer.status, 200);
});

test('an expectation that nobody knows is passed over', async (t) => {
  const answer = await send('GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: the-best\r\nConnection: close\r\n\r\n');
  t.is(answer.status, 200);
});

const ask = (id: string, more = ''): string => `GET /nothing HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${id}\r\n${more}\r\n`;

test('several requests in one packet are answered in order', async (t) => {
  const socket = await connectTo(platform().base);
  const all = readToEnd(socket);
  socket.write(ask('one') + ask('two') + ask('three', 'Connection: close\r\n'));
  const ids = [...(await all).matchAll(/"request_id":"(\w+)"/g)].map((match) => match[1]);
  t.deepEqual(ids, ['one', 'two', 'three']);
});

test('a connection that was refused does not stay open at the will of its client', async (t) => {
  const socket = await connectTo(platform().base, true);
  const all = readToEnd(socket);
  // The client neither closes nor stops sending.
  socket.write('nonsense\r\n\r\n');
  const timer = setInterval(() => socket.writable && socket.write('more\r\n'), 50);
  const answer = parseAnswer(await all);
  clearInterval(timer);
  t.is(answer.status, 400);
});

test.after('the platform still serves after all this', async (t) => {
  t.is((await platform().client.call('GET', '/healthz')).status, 200);
});
