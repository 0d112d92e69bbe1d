import { once } from 'node:events';
import { type IncomingMessage, type RequestListener, createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import ava, { type ExecutionContext } from 'ava';
import type { EgressOptions } from '#lib/egress.ts';
import { type EgressCall, egressCases, startBannerServer, startHitServer } from '#test/support/egress-cases.ts';
import { createEgress } from '#lib/egress.ts';
import { createGuestProxy } from '#workers/runtimes/egress-proxy.ts';
import type { RunOutcome, Runtime } from '#workers/runtimes/runtime.ts';
import { request, run } from './harness.ts';
import { openPython, pythonTest, usePython } from './python-harness.ts';

const open: EgressOptions = { allow: '127.0.0.1', local: false, resolve: () => Promise.resolve(['127.0.0.1']) };
const runtime = usePython({}, open);
const shut = usePython();

const handler = (...body: string[]): string =>
  [
    'import http.client, os, socket, urllib.request, urllib.error',
    'def handler(payload, sdk):',
    ...body.map((line) => `  ${line}`),
  ].join('\n');

const get = handler(
  'try:',
  '  with urllib.request.urlopen(payload, timeout=10) as answer:',
  '    return [answer.status, answer.read().decode()]',
  'except urllib.error.HTTPError as error: return [error.code, error.read().decode()]',
  'except urllib.error.URLError as error: return [0, str(error.reason)]',
);

type Fetched = [status: number, text: string];
const reported = (t: ExecutionContext, outcome: RunOutcome): Fetched => {
  t.is(outcome.status, 'success', JSON.stringify(outcome.error));
  return JSON.parse(outcome.result ?? '') as Fetched;
};
const fetched = async (t: ExecutionContext, url: string, by: Runtime = runtime()): Promise<Fetched> =>
  reported(t, await run(by, get, { payload: JSON.stringify(url), functionId: 'get' }));

const serve = async (t: ExecutionContext, answer: RequestListener): Promise<number> => {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
};

pythonTest('a function reads an address that is open, by its name and by its number', async (t) => {
  const port = await serve(t, (_request, response) => void response.end('hello'));
  t.deepEqual(await fetched(t, `http://127.0.0.1:${port}/`), [200, 'hello']);
  t.deepEqual(await fetched(t, `http://public.example:${port}/`), [200, 'hello']);
});

pythonTest('a request arrives with its method, path, headers and body, and none of the proxy’s', async (t) => {
  let got: IncomingMessage | undefined;
  let body = '';
  const port = await serve(t, (incoming, response) => {
    got = incoming;
    incoming.on('data', (chunk: Buffer) => (body += chunk.toString()));
    incoming.on('end', () => response.writeHead(201, { 'x-answer': 'yes', 'set-cookie': ['a=1', 'b=2'] }).end('made'));
  });
  const code = handler(
    `request = urllib.request.Request("http://127.0.0.1:${port}/a/b?c=d%20e", b"payload", {"X-Mine": "1"}, method="PUT")`,
    'with urllib.request.urlopen(request) as answer:',
    '  return [answer.status, answer.read().decode(), answer.headers["X-Answer"], answer.headers.get_all("Set-Cookie")]',
  );
  const outcome = await run(runtime(), code);
  t.deepEqual(JSON.parse(outcome.result ?? 'null'), [201, 'made', 'yes', ['a=1', 'b=2']]);
  t.like(got, { method: 'PUT', url: '/a/b?c=d%20e' });
  t.is(got?.headers['x-mine'], '1');
  t.is(got?.headers.host, `127.0.0.1:${port}`);
  t.is(body, 'payload');
  t.deepEqual(
    Object.keys(got?.headers ?? {}).filter((name) => /proxy|forwarded|via/.test(name)),
    [],
  );
});

pythonTest('answers of any size pass through whole', async (t) => {
  const port = await serve(t, (_request, response) => void response.end(Buffer.alloc(30 << 20, 'x')));
  const code = handler(`return len(urllib.request.urlopen("http://127.0.0.1:${port}/").read())`);
  t.is((await run(runtime(), code)).result, String(30 << 20));
});

pythonTest('https goes through a tunnel to the address that was checked', async (t) => {
  const server = await startBannerServer('not TLS');
  t.teardown(() => server.close());
  const [status, reason] = await fetched(t, `https://public.example:${server.port}/`);
  t.is(status, 0);
  t.regex(reason, /SSL|EOF|reset|record/i);
  t.is(server.connections(), 1);
});

pythonTest('a tunnel carries bytes both ways until either side ends', async (t) => {
  const echo = createTcpServer((socket) => void socket.on('error', () => undefined).pipe(socket)).listen(
    0,
    '127.0.0.1',
  );
  await once(echo, 'listening');
  t.teardown(() => void echo.close());
  const { port } = echo.address() as AddressInfo;
  const code = handler(
    'proxy = os.environ["https_proxy"].rsplit(":", 1)[1]',
    's = socket.create_connection(("127.0.0.1", int(proxy)))',
    `s.sendall(b"CONNECT public.example:${port} HTTP/1.1\\r\\n\\r\\n")`,
    'head = s.recv(1000).decode().split("\\r\\n")[0]',
    's.sendall(b"ping"); back = s.recv(4)',
    's.shutdown(socket.SHUT_WR)',
    'return [head, back.decode(), s.recv(10) == b""]',
  );
  const outcome = await run(runtime(), code);
  t.deepEqual(JSON.parse(outcome.result ?? 'null'), ['HTTP/1.1 200 Connection established', 'ping', true]);
});

pythonTest('a refusal names the host, over http and over https', async (t) => {
  t.deepEqual(await fetched(t, 'http://10.0.0.1/', shut()), [403, 'The host 10.0.0.1 may not be reached from here.']);
  const [status, reason] = await fetched(t, 'https://169.254.169.254/', shut());
  t.is(status, 0);
  t.regex(reason, /403 The host 169\.254\.169\.254 may not be reached from here\./);
});

pythonTest('a redirect to a closed address is refused at the second step', async (t) => {
  const closed = await startHitServer();
  t.teardown(() => closed.close());
  const port = await serve(
    t,
    (_request, response) => void response.writeHead(302, { location: `http://127.0.0.2:${closed.port}/` }).end(),
  );
  t.deepEqual(await fetched(t, `http://127.0.0.1:${port}/`), [403, 'The host 127.0.0.2 may not be reached from here.']);
  t.is(closed.connections(), 0);
});

pythonTest('ports of mail, shells and databases below 1024 are closed', async (t) => {
  const sentence = 'Port 25 of 127.0.0.1 may not be reached from here.';
  t.deepEqual(await fetched(t, 'http://127.0.0.1:25/'), [403, sentence]);
  t.regex((await fetched(t, 'https://127.0.0.1:25/'))[1], new RegExp(`403 ${sentence}`));
});

pythonTest('a host without an address, and one where nobody listens, are told apart from a refusal', async (t) => {
  t.deepEqual(await fetched(t, 'http://none.example/', shut()), [502, 'There is no address for none.example.']);
  const server = await startHitServer();
  await server.close();
  const fetched502 = await fetched(t, `http://127.0.0.1:${server.port}/`);
  t.deepEqual(fetched502, [502, 'No connection to 127.0.0.1 could be made.']);
});

pythonTest('at most 64 connections are open at a time', async (t) => {
  const hold = await startHitServer(() => undefined);
  t.teardown(() => hold.close());
  // A process may hold 64 descriptors: two are needed.
  const code = handler(
    'port = int(os.environ["http_proxy"].rsplit(":", 1)[1])',
    'def open_some(count):',
    '  return [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]',
    'here, there = os.pipe()',
    'if os.fork() == 0:',
    '  kept = open_some(40)',
    '  os.write(there, b"x")',
    '  import time; time.sleep(1000)',
    'os.read(here, 1)',
    'mine = open_some(25)',
    'return mine[24].recv(100).decode().split("\\r\\n")[0]',
  );
  const outcome = await run(runtime(), code);
  t.is(JSON.parse(outcome.result ?? 'null'), 'HTTP/1.1 503 More than 64 connections are open.');
});

pythonTest('connections end with the run', async (t) => {
  const ended = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const port = await serve(t, (incoming) => {
    arrived.resolve();
    incoming.socket.once('close', () => ended.resolve());
  });
  const abort = new AbortController();
  const code = handler(`urllib.request.urlopen("http://127.0.0.1:${port}/")`);
  const outcome = runtime().run(request(code), { signal: abort.signal });
  await arrived.promise;
  abort.abort();
  await ended.promise;
  t.is((await outcome).status, 'cancelled');
});

pythonTest('what is no HTTP, or no request to a proxy, reaches nothing', async (t) => {
  const server = await startHitServer();
  t.teardown(() => server.close());
  const code = handler(
    'port = int(os.environ["http_proxy"].rsplit(":", 1)[1])',
    'heads = []',
    'for text in payload:',
    '  s = socket.create_connection(("127.0.0.1", port)); s.sendall(text.encode()); s.shutdown(socket.SHUT_WR)',
    '  heads.append(s.recv(1000).decode().split("\\r\\n")[0][:12]); s.close()',
    'return heads',
  );
  const texts = [
    'garbage\r\n\r\n',
    `GET / HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n\r\n`,
    `GET //127.0.0.1:${server.port}/ HTTP/1.1\r\nHost: x\r\n\r\n`,
    'CONNECT nowhere HTTP/1.1\r\n\r\n',
    'CONNECT 127.0.0.1:99999 HTTP/1.1\r\n\r\n',
    'GET file:///etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n',
  ];
  const outcome = await run(runtime(), code, { payload: JSON.stringify(texts) });
  const heads = JSON.parse(outcome.result ?? '[]') as string[];
  t.is(heads.length, texts.length, JSON.stringify(outcome));
  for (const head of heads) t.regex(head, /^(?:|HTTP\/1\.1 40[03])$/);
  t.is(server.connections(), 0);
});

pythonTest('requests, where the system has it, goes the same way', async (t) => {
  const port = await serve(t, (_request, response) => void response.end('hello'));
  const code = [
    'def handler(payload, sdk):',
    '  try: import requests',
    '  except ModuleNotFoundError: return "hello"',
    `  return requests.get("http://127.0.0.1:${port}/").text`,
  ].join('\n');
  t.is((await run(runtime(), code)).result, '"hello"');
});

pythonTest('the proxy ends with its runner', async (t) => {
  const own = await openPython({ spares: 0 }, open);
  t.is((await run(own, handler('return 1'))).status, 'success');
  await own.close();
  t.pass();
});

/** The proxy as a client on this machine meets it: the rules are the same as for one inside of a sandbox. */
const proxied = async (settings: EgressOptions, viaConnect: boolean): Promise<EgressCall> => {
  const listener = createTcpServer();
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  closings.push(() => listener.close());
  createGuestProxy(createEgress(settings))(listener).open();
  const { port } = listener.address() as AddressInfo;
  return async ({ host, port: wanted, url }) => {
    const { Socket } = await import('node:net');
    const client = new Socket();
    client.connect(port, '127.0.0.1');
    const written = Buffer.from(
      viaConnect
        ? `CONNECT ${host}:${wanted} HTTP/1.1\r\n\r\n`
        : `GET ${url} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`,
    );
    client.write(written);
    const [head] = (await Promise.race([once(client, 'data'), once(client, 'close').then(() => [''])])) as [unknown];
    client.destroy();
    const status = /^HTTP\/1\.1 (\d+)/.exec(String(head))?.[1];
    if (status === '200') return 'reached';
    // Input that Node's parser does not accept as HTTP never reaches the guard.
    if (status === '403' || status === '400' || status === undefined) return 'refused';
    throw new Error(String(head));
  };
};
const closings: (() => void)[] = [];
ava.after.always(() => {
  for (const close of closings) close();
});

egressCases(ava, {
  what: 'proxy, CONNECT',
  make: (settings) => proxied(settings, true),
  takesUrls: false,
  takesNames: true,
});
egressCases(ava, {
  what: 'proxy, http',
  make: (settings) => proxied(settings, false),
  takesUrls: false,
  takesNames: true,
});
