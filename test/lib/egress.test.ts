import { once } from 'node:events';
import { type IncomingMessage, type RequestListener, type ServerResponse, createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import test, { type ExecutionContext } from 'ava';
import { fetch as undiciFetch } from 'undici';
import { type Egress, type EgressOptions, type EgressRequest, createEgress } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import { startBannerServer, startHitServer } from '#test/support/egress-cases.ts';

const ordinary = { for: 'platform', timeoutMs: 20_000, maxBytes: 1_000_000 } as const satisfies EgressRequest;

const egressFor = (t: ExecutionContext, settings: Partial<EgressOptions> = {}): Egress => {
  const egress = createEgress({ allow: '127.0.0.1', local: false, ...settings });
  t.teardown(() => egress.close());
  return egress;
};

const serverFor = async (t: ExecutionContext, answer?: RequestListener) => {
  const server = await startHitServer(answer);
  t.teardown(server.close);
  return { ...server, url: `http://127.0.0.1:${server.port}/` };
};

const reasonOf = async (work: Promise<unknown>): Promise<string> => {
  try {
    await work;
    return 'no failure';
  } catch (error) {
    if (error instanceof EgressFailed) return error.reason;
    throw error;
  }
};

const textOf = async (request: IncomingMessage): Promise<string> => {
  request.setEncoding('utf8');
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
};

const echo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const text = await textOf(request);
  response.writeHead(418, { 'x-echo': `${request.method} ${String(request.headers['x-mine'])}` }).end(`${text}!`);
};

test('method, headers and body arrive, and status, headers and body come back', async (t) => {
  const { url } = await serverFor(t, (request, response) => {
    void echo(request, response);
  });
  const answer = await egressFor(t).fetch(url, {
    ...ordinary,
    method: 'PUT',
    headers: { 'x-mine': 'a' },
    body: 'hello',
  });
  t.like(answer, { status: 418, truncated: false });
  t.is(answer.headers['x-echo'], 'PUT a');
  t.is(answer.body.toString(), 'hello!');
});

test('a redirect comes back as it is, and nobody goes there', async (t) => {
  const there = await serverFor(t);
  const { url } = await serverFor(t, (_request, response) => {
    response.writeHead(302, { location: there.url }).end();
  });
  const answer = await egressFor(t).fetch(url, ordinary);
  t.is(answer.status, 302);
  t.is(answer.headers['location'], there.url);
  t.is(there.connections(), 0);
});

test('who follows redirects over the dispatcher is stopped where one leads inside', async (t) => {
  for (const inside of [
    'http://127.0.0.2/',
    'http://[::1]/',
    'http://169.254.169.254/latest/',
    'http://inner.example/',
  ]) {
    const { url, connections } = await serverFor(t, (_request, response) => {
      response.writeHead(307, { location: inside }).end();
    });
    const egress = egressFor(t, { resolve: () => Promise.resolve(['10.0.0.1']) });
    const error = await t.throwsAsync(undiciFetch(url, { dispatcher: egress.dispatcher('platform') }));
    t.true(error.cause instanceof EgressRefused, inside);
    t.is(connections(), 1);
  }
});

test('a body is read up to its limit, and the rest is not waited for', async (t) => {
  const closed = Promise.withResolvers<void>();
  const { url } = await serverFor(t, (_request, response) => {
    response.on('close', closed.resolve);
    response.write('0123456789');
  });
  const answer = await egressFor(t).fetch(url, { ...ordinary, maxBytes: 4 });
  t.is(answer.body.toString(), '0123');
  t.true(answer.truncated);
  await closed.promise;
});

test('a body of just the limit is whole, and nothing at all fits into nothing', async (t) => {
  const { url } = await serverFor(t, (request, response) => void response.end(request.url === '/' ? '0123' : ''));
  const egress = egressFor(t);
  t.like(await egress.fetch(url, { ...ordinary, maxBytes: 4 }), { truncated: false, body: Buffer.from('0123') });
  t.like(await egress.fetch(url, { ...ordinary, maxBytes: 0 }), { truncated: true, body: Buffer.alloc(0) });
  t.like(await egress.fetch(`${url}empty`, { ...ordinary, maxBytes: 0 }), { truncated: false, body: Buffer.alloc(0) });
});

test('what was packed comes back packed', async (t) => {
  const { url } = await serverFor(t, (_request, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip' }).end('not even gzip');
  });
  t.is((await egressFor(t).fetch(url, ordinary)).body.toString(), 'not even gzip');
});

for (const [when, answer] of Object.entries({
  'before its head': () => undefined,
  'in the middle of its body': (_request, response) => void response.write('begun'),
} satisfies Record<string, RequestListener>)) {
  test(`an answer that stops ${when} ends with the time-out, and the connection with it`, async (t) => {
    const closed = Promise.withResolvers<void>();
    const { url } = await serverFor(t, (request, response) => {
      response.on('close', closed.resolve);
      answer(request, response);
    });
    t.is(await reasonOf(egressFor(t).fetch(url, { ...ordinary, timeoutMs: 200 })), 'timeout');
    await closed.promise;
  });
}

test('an answer that drips is over at the time-out, not at each drop', async (t) => {
  const { url } = await serverFor(t, (_request, response) => {
    const timer = setInterval(() => response.write('.'), 20);
    response.on('close', () => clearInterval(timer));
  });
  t.is(await reasonOf(egressFor(t).fetch(url, { ...ordinary, timeoutMs: 300 })), 'timeout');
});

test('a lookup that never ends is over at the time-out', async (t) => {
  // Something has to keep the process: a lookup that never ends does not.
  await serverFor(t);
  const egress = egressFor(t, { resolve: () => new Promise(() => undefined) });
  t.is(await reasonOf(egress.fetch('http://slow.example/', { ...ordinary, timeoutMs: 100 })), 'timeout');
});

test('who gives up gets the own reason back, and the connection is closed', async (t) => {
  const [requested, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { url } = await serverFor(t, (_request, response) => {
    response.on('close', closed.resolve);
    requested.resolve();
  });
  const [controller, reason] = [new AbortController(), new Error('cancelled')];
  const pending = egressFor(t).fetch(url, { ...ordinary, signal: controller.signal });
  await requested.promise;
  controller.abort(reason);
  t.is(await t.throwsAsync(pending), reason);
  await closed.promise;
});

test('failures have a reason each', async (t) => {
  const egress = egressFor(t);
  const gone = await startHitServer();
  await gone.close();
  t.is(await reasonOf(egress.fetch(`http://127.0.0.1:${gone.port}/`, ordinary)), 'connection_failed');
  const plain = await serverFor(t);
  t.is(await reasonOf(egress.fetch(plain.url.replace('http:', 'https:'), ordinary)), 'tls_failed');
  const banner = await startBannerServer('220 mail.example ready\r\n');
  t.teardown(banner.close);
  t.is(await reasonOf(egress.fetch(`http://127.0.0.1:${banner.port}/`, ordinary)), 'invalid_answer');
  const rude = await serverFor(t, (request) => void request.socket.destroy());
  t.is(await reasonOf(egress.fetch(rude.url, ordinary)), 'connection_lost');
  const header = { ...ordinary, headers: { 'x-bad': 'a\r\nb: c' } };
  t.is(await reasonOf(egress.fetch(plain.url, header)), 'invalid_request');
  const none = egressFor(t, { resolve: () => Promise.resolve([]) });
  t.is(await reasonOf(none.fetch('http://none.example/', ordinary)), 'name_not_found');
});

test('a failure of an allowed address does not say the address', async (t) => {
  const gone = await startHitServer();
  await gone.close();
  const egress = egressFor(t, { resolve: () => Promise.resolve(['127.0.0.1']) });
  const error = await t.throwsAsync(egress.fetch(`http://inner.example:${gone.port}/`, ordinary));
  t.is(error.message, 'No connection to inner.example could be made.');
});

test('on a local machine without a list, loopback is open to the platform and not to functions', async (t) => {
  const { url, port, connections } = await serverFor(t);
  const egress = egressFor(t, { allow: undefined, local: true });
  for (const at of [url, `http://localhost:${port}/`, `http://2130706433:${port}/`])
    t.is((await egress.fetch(at, ordinary)).status, 200, at);
  const before = connections();
  // The platform's connection is still open: it is not for functions.
  for (const at of [url, `http://localhost:${port}/`])
    await t.throwsAsync(egress.fetch(at, { ...ordinary, for: 'function' }), { instanceOf: EgressRefused }, at);
  await t.throwsAsync(undiciFetch(url, { dispatcher: egress.dispatcher('function') }));
  await t.throwsAsync(egress.fetch('http://10.0.0.1/', ordinary), { instanceOf: EgressRefused });
  t.is(connections(), before);
});

test('a list counts for functions too, and anywhere; without one a server opens nothing', async (t) => {
  const { url } = await serverFor(t);
  const listed = egressFor(t, { allow: '127.0.0.0/8', local: true });
  t.is((await listed.fetch(url, { ...ordinary, for: 'function' })).status, 200);
  const bare = egressFor(t, { allow: undefined, local: false });
  await t.throwsAsync(bare.fetch(url, ordinary), { instanceOf: EgressRefused });
});

test('connections are kept for the next request, and gone after the close', async (t) => {
  const { url, connections } = await serverFor(t);
  const egress = createEgress({ allow: '127.0.0.1', local: false });
  for (let requests = 0; requests < 20; requests += 1) await egress.fetch(url, ordinary);
  t.true(connections() < 20);
  await egress.close();
  await t.throwsAsync(egress.fetch(url, ordinary));
});

test('the second address is tried when nobody listens at the first', async (t) => {
  const server = createServer((_request, response) => void response.end('v4')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const egress = egressFor(t, { allow: '127.0.0.0/8,::1', resolve: () => Promise.resolve(['::1', '127.0.0.1']) });
  t.is((await egress.fetch(`http://two.example:${port}/`, ordinary)).body.toString(), 'v4');
});

test('an endless head is cut off', async (t) => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    socket.write(`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(300_000)}`);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  t.is(await reasonOf(egressFor(t).fetch(`http://127.0.0.1:${port}/`, ordinary)), 'invalid_answer');
});
