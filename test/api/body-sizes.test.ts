import { once } from 'node:events';
import { request } from 'node:http';
import { Readable } from 'node:stream';
import test from 'ava';
import type { Answer, CallOptions } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type RawAnswer, connectTo, parseAnswer, readToEnd, sendRaw } from '#test/support/raw-http.ts';

const platform = usePlatform(test, { worker: false });
const impatient = usePlatform(test, { worker: false, settings: { PLINTH_BODY_TIMEOUT_MS: '300' } });

const mib = 1024 * 1024;

const post = (path: string, options: CallOptions): Promise<Answer> => platform().client.call('POST', path, options);

const sized = (bytes: number): string => `{"email":"${'a'.repeat(bytes - 12)}"}`;

test('a body just over the limit is 413 and names limit and setting, one at the limit is read', async (t) => {
  const over = await post('/auth/login', { raw: sized(mib + 1) });
  isError(t, over, 413, 'payload_too_large');
  t.regex(over.body.message, /1048576/);
  t.regex(over.body.hint, /PLINTH_BODY_LIMIT_JSON/);
  isError(t, await post('/auth/login', { raw: sized(mib) }), 400, 'validation_failed');
});

test('the payload of a function may be larger than other bodies', async (t) => {
  const raw = JSON.stringify('a'.repeat(2 * mib));
  const path = '/projects/0198c0de-0000-7000-8000-000000000000/functions/0198c0de-0000-7000-8000-000000000000/invoke';
  isError(t, await post(path, { raw }), 401, 'unauthenticated');
});

const chunkBytes = 256 * 1024;

function* repeated(total: number, wrap: (chunk: Buffer) => Buffer): Generator<Buffer> {
  const chunk = wrap(Buffer.alloc(chunkBytes, 0x61));
  for (let sent = 0; sent < total; sent += chunkBytes) yield chunk;
}

/**
 * Sends `total` bytes without looking at the answer meanwhile, as the simplest clients do, and then a second request.
 */
const pushAll = async (start: string, body: Iterable<Buffer>, end: string): Promise<[RawAnswer, RawAnswer]> => {
  const socket = await connectTo(platform().base);
  const answers = readToEnd(socket);
  socket.write(start);
  const source = Readable.from(body, { objectMode: false });
  source.pipe(socket, { end: false });
  await Promise.race([once(source, 'end'), answers]);
  socket.write(`${end}GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  const [first = '', second = ''] = (await answers).split(/(?=HTTP\/1\.1 200)/);
  return [parseAnswer(first), parseAnswer(second)];
};

const head = (length: string): string =>
  `POST /auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;

test('a client that declares and sends 100 MB reads its 413 and can go on', async (t) => {
  const body = repeated(100 * mib, (chunk) => chunk);
  const [refused, next] = await pushAll(head(`Content-Length: ${100 * mib}`), body, '');
  isError(t, refused, 413, 'payload_too_large');
  t.is(next.status, 200);
});

test('a client that sends 100 MB in chunks reads its 413 and can go on', async (t) => {
  const size = Buffer.from(`${chunkBytes.toString(16)}\r\n`);
  const body = repeated(100 * mib, (chunk) => Buffer.concat([size, chunk, Buffer.from('\r\n')]));
  const [refused, next] = await pushAll(head('Transfer-Encoding: chunked'), body, '0\r\n\r\n');
  isError(t, refused, 413, 'payload_too_large');
  t.is(next.status, 200);
});

test('a client that only declares 100 MB is answered before it sends any', async (t) => {
  const { port } = new URL(platform().base);
  const req = request({
    port,
    method: 'POST',
    path: '/auth/login',
    headers: { 'content-length': 100 * mib, 'content-type': 'application/json' },
  });
  req.flushHeaders();
  const [response] = await once(req, 'response');
  t.is(response.statusCode, 413);
  req.on('error', () => undefined).destroy();
});

test('a body that does not arrive in time is 408 and the connection closes', async (t) => {
  const socket = await connectTo(impatient().base);
  const answer = readToEnd(socket);
  socket.write(`${head('Content-Length: 100')}{"email"`);
  const late = parseAnswer(await answer);
  isError(t, late, 408, 'request_timeout');
  t.is(late.headers['connection'], 'close');
});

test('a body that drips is 408, too', async (t) => {
  const socket = await connectTo(impatient().base);
  const answer = readToEnd(socket);
  socket.write(head('Transfer-Encoding: chunked'));
  const drip = setInterval(() => socket.writable && socket.write('1\r\n \r\n'), 20);
  isError(t, parseAnswer(await answer), 408, 'request_timeout');
  clearInterval(drip);
});

test('a client that breaks off in the middle of its body leaves no fault behind', async (t) => {
  const id = `aborted-${crypto.randomUUID()}`;
  const socket = await connectTo(platform().base);
  socket.write(head(`X-Request-Id: ${id}\r\nContent-Length: 100`) + '{"email"');
  // The request is known to have begun once a later one was answered.
  await platform().client.call('GET', '/healthz');
  socket.destroy();
  const line = (): string | undefined =>
    platform()
      .logged()
      .split('\n')
      .find((entry) => entry.includes(id));
  while (line() === undefined) await new Promise(setImmediate);
  t.like(JSON.parse(line() ?? ''), { status: 400, path: '/auth/login' });
  t.false(platform().logged().includes('"level":50'));
});

test('a stranger is told so before his body is read', async (t) => {
  const answer = await sendRaw(
    platform().base,
    `POST /projects HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n`,
  );
  isError(t, answer, 401, 'unauthenticated');
});
