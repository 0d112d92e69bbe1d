import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { gzipSync } from 'node:zlib';
import test, { type ExecutionContext } from 'ava';
import { createEgress } from '#lib/egress.ts';
import { CallFault, type RunServices } from '#workers/runtimes/runtime.ts';
import { fetchService } from '#workers/services/fetch/service.ts';
import { servicesOf } from '#workers/services/services.ts';
import { serve } from '#test/support/serve.ts';

const egress = createEgress({ allow: '127.0.0.1', local: false });

test.after.always(() => egress.close());

const megabyte = 1024 * 1024;

const open = (): RunServices =>
  servicesOf([fetchService({ egress })])({ projectId: 'p', timeoutMs: 30_000, signal: new AbortController().signal });

const ask = async (run: RunServices, op: string, args: object) => JSON.parse(await run.call(op, JSON.stringify(args)));

const bodyOf = async (run: RunServices, id: number): Promise<Buffer> => {
  const pieces: Buffer[] = [];
  for (;;) {
    const piece = await ask(run, 'fetch.read', { id });
    if (piece.done === true) return Buffer.concat(pieces);
    pieces.push(Buffer.from(piece.chunk, 'base64'));
  }
};

const faultOf = async (t: ExecutionContext, work: Promise<unknown>): Promise<CallFault> => {
  const fault = await t.throwsAsync(work);
  if (!(fault instanceof CallFault)) throw fault ?? new Error('no fault');
  return fault;
};

const received = async (request: IncomingMessage): Promise<string> => {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += String(chunk);
  return text;
};

test('a request arrives as it was written, and its answer comes back whole', async (t) => {
  const url = await serve(t, (request, response) => {
    response.setHeader('set-cookie', ['a=1', 'b=2']);
    response.writeHead(201, 'Made');
    void received(request).then((body) =>
      response.end(JSON.stringify([request.method, request.url, request.headers['x-a'], body])),
    );
  });
  const run = open();
  const answer = await ask(run, 'fetch', {
    id: 1,
    url: `${url}/p?q=1`,
    method: 'PUT',
    headers: [['X-A', 'é']],
    body: Buffer.from('text €').toString('base64'),
    redirect: 'follow',
  });
  t.like(answer, { status: 201, statusText: 'Made', url: `${url}/p?q=1`, redirected: false, hasBody: true });
  const cookies = answer.headers.filter(([name]: [string]) => name === 'set-cookie');
  t.deepEqual(cookies, [
    ['set-cookie', 'a=1'],
    ['set-cookie', 'b=2'],
  ]);
  const [method, path, header, body] = JSON.parse(String(await bodyOf(run, 1)));
  t.deepEqual([method, path, header, body], ['PUT', '/p?q=1', 'é', 'text €']);
  t.deepEqual(await ask(run, 'fetch.read', { id: 1 }), { done: true });
  await run.close();
});

test('the headers of the connection are ours, the name of the sender is unless it is given', async (t) => {
  const url = await serve(t, (request, response) => void response.end(JSON.stringify(request.headers)));
  const run = open();
  const headers = [
    ['Host', 'internal.example'],
    ['Connection', 'upgrade'],
    ['Upgrade', 'websocket'],
    ['Transfer-Encoding', 'chunked'],
    ['Content-Length', '5'],
    ['TE', 'trailers'],
    ['Proxy-Authorization', 'x'],
    ['Authorization', 'Bearer y'],
    ['Cookie', 'c=1'],
  ];
  await ask(run, 'fetch', { id: 1, url, headers });
  const seen = JSON.parse(String(await bodyOf(run, 1)));
  t.is(seen.host, new URL(url).host);
  for (const name of ['upgrade', 'transfer-encoding', 'content-length', 'te', 'proxy-authorization'])
    t.is(seen[name], undefined, name);
  t.like(seen, { authorization: 'Bearer y', cookie: 'c=1', 'user-agent': 'plinth-functions/1' });
  await ask(run, 'fetch', { id: 2, url, headers: [['USER-AGENT', 'mine/2']] });
  t.is(JSON.parse(String(await bodyOf(run, 2)))['user-agent'], 'mine/2');
  await run.close();
});

test('a redirect to a closed address is refused, its name and address are not told', async (t) => {
  let hits = 0;
  const url = await serve(t, (request, response) => {
    hits += 1;
    const to = new URL(`http://${request.url?.slice(1)}/`);
    response.writeHead(302, { location: to.href }).end();
  });
  const run = open();
  let id = 0;
  for (const host of ['127.0.0.2', '169.254.169.254', '[::1]', '2130706434', '10.0.0.1:5432', 'localhost']) {
    id += 1;
    const { message } = await faultOf(t, ask(run, 'fetch', { id, url: `${url}/${host}` }));
    t.is(message, 'fetch failed: the address redirects to one that may not be reached from here.', host);
  }
  t.is(hits, id);
  await run.close();
});

test('redirects are followed, given back or refused, as the request says', async (t) => {
  const url = await serve(t, (request, response) => {
    if (request.url === '/end') response.end('arrived');
    else
      response
        .writeHead(302, {
          location: request.url === '/loop' ? '/loop' : request.url === '/file' ? 'file:///etc/passwd' : '/end',
        })
        .end();
  });
  const run = open();
  t.like(await ask(run, 'fetch', { id: 1, url: `${url}/a`, redirect: 'follow' }), {
    status: 200,
    redirected: true,
    url: `${url}/end`,
  });
  const manual = await ask(run, 'fetch', { id: 2, url: `${url}/a`, redirect: 'manual' });
  t.is(manual.status, 302);
  t.deepEqual(
    manual.headers.find(([name]: [string]) => name === 'location'),
    ['location', '/end'],
  );
  const words = async (id: number, path: string, redirect: string): Promise<string> =>
    (await faultOf(t, ask(run, 'fetch', { id, url: url + path, redirect }))).message;
  t.regex(await words(3, '/a', 'error'), /redirects, which the request does not allow/);
  t.regex(await words(4, '/loop', 'follow'), /redirects again and again/);
  t.regex(await words(5, '/file', 'follow'), /not http:\/\/ or https:\/\//);
  await run.close();
});

test('64 requests may be open, the 65th is refused until one has ended', async (t) => {
  const url = await serve(t, (_request, response) => void response.end('x'));
  const run = open();
  await Promise.all(Array.from({ length: 64 }, (_, id) => ask(run, 'fetch', { id, url })));
  t.regex((await faultOf(t, ask(run, 'fetch', { id: 64, url }))).message, /more than 64 requests/);
  await bodyOf(run, 0);
  t.is((await ask(run, 'fetch', { id: 64, url })).status, 200);
  await ask(run, 'fetch.cancel', { id: 1 });
  t.is((await ask(run, 'fetch', { id: 65, url })).status, 200);
  await run.close();
});

for (const [what, encode] of [
  ['an answer', (bytes: Buffer) => bytes],
  ['a compressed answer', (bytes: Buffer) => gzipSync(bytes)],
] as const) {
  test(`${what} of 10 MB comes in pieces of at most 256 KB, one byte more is refused`, async (t) => {
    const url = await serve(t, (request, response) => {
      const bytes = encode(Buffer.alloc(10 * megabyte + Number(request.url === '/more'), 'x'));
      if (bytes.length < megabyte) response.setHeader('content-encoding', 'gzip');
      response.end(bytes);
    });
    const run = open();
    await ask(run, 'fetch', { id: 1, url });
    let bytes = 0;
    for (;;) {
      const piece = await ask(run, 'fetch.read', { id: 1 });
      if (piece.done === true) break;
      const { length } = Buffer.from(piece.chunk, 'base64');
      t.true(length > 0 && length <= 256 * 1024);
      bytes += length;
    }
    t.is(bytes, 10 * megabyte);
    await ask(run, 'fetch', { id: 2, url: `${url}/more` });
    t.regex((await faultOf(t, bodyOf(run, 2))).message, /answer is larger than 10 MB/);
    t.deepEqual(await ask(run, 'fetch.read', { id: 2 }), { done: true });
    await run.close();
  });
}

const bodyText = (bytes: number): string => Buffer.alloc(bytes, 'x').toString('base64');

test('a body of 10 MB is sent, a larger one refused', async (t) => {
  const url = await serve(t, (request, response) => {
    let bytes = 0;
    request.on('data', (chunk: Buffer) => (bytes += chunk.length));
    request.on('end', () => response.end(String(bytes)));
  });
  const run = open();
  await ask(run, 'fetch', { id: 1, url, method: 'POST', body: bodyText(10 * megabyte) });
  t.is(String(await bodyOf(run, 1)), String(10 * megabyte));
  for (const more of [1, 2, 3, megabyte]) {
    const fault = await faultOf(
      t,
      ask(run, 'fetch', { id: 2, url, method: 'POST', body: bodyText(10 * megabyte + more) }),
    );
    t.regex(fault.message, /body is larger than 10 MB/);
  }
  await run.close();
});

test('the end of the run ends its requests, also those whose answer has begun', async (t) => {
  const ended: Promise<unknown>[] = [];
  const started = Promise.withResolvers<void>();
  const url = await serve(t, (request, response) => {
    ended.push(once(response, 'close'));
    if (request.url === '/begun') response.write('first');
    else started.resolve();
  });
  const run = open();
  const silent = faultOf(t, ask(run, 'fetch', { id: 1, url }));
  await ask(run, 'fetch', { id: 2, url: `${url}/begun` });
  await ask(run, 'fetch.read', { id: 2 });
  const rest = faultOf(t, ask(run, 'fetch.read', { id: 2 }));
  await started.promise;
  await run.close();
  t.is((await silent).name, 'AbortError');
  t.is((await rest).name, 'AbortError');
  await Promise.all(ended);
  t.is(ended.length, 2);
  t.regex((await faultOf(t, ask(run, 'fetch', { id: 3, url }))).message, /the run is over/);
});

test('a cancelled request fails at once and leaves its place', async (t) => {
  const arrived = Promise.withResolvers<void>();
  const url = await serve(t, () => arrived.resolve());
  const run = open();
  const fault = faultOf(t, ask(run, 'fetch', { id: 1, url }));
  await arrived.promise;
  t.is(await ask(run, 'fetch.cancel', { id: 1 }), null);
  t.is((await fault).message, 'The request was cancelled.');
  t.is(await ask(run, 'fetch.cancel', { id: 1 }), null);
  await run.close();
});

test('a request that is not HTTP, or not a request, is refused in words', async (t) => {
  const url = await serve(t, (_request, response) => void response.end());
  const run = open();
  let id = 0;
  for (const args of [
    { method: 'CONNECT' },
    { method: 'TRACE' },
    { method: 'A B' },
    { method: 'GET', body: 'eA==' },
    { headers: [['a b', 'x']] },
    { headers: [['a', 'x\r\ny: z']] },
    { headers: [['a', '€']] },
    { headers: { a: 'b' } },
    { method: 5 },
    { body: 'no base64' },
    { redirect: 'sometimes' },
    { url: 5 },
  ]) {
    id += 1;
    const fault = await faultOf(t, ask(run, 'fetch', { id, url, ...args }));
    t.is(fault.name, 'TypeError');
    t.regex(fault.message, /^fetch failed: \S/, JSON.stringify(args));
    t.notRegex(fault.message, /undefined|\[object/);
  }
  await run.close();
});

test('what fails is told without what lies behind it', async (t) => {
  const url = await serve(t, (request) => void request.socket.destroy());
  const { port } = new URL(url);
  const run = open();
  const lost = await faultOf(t, ask(run, 'fetch', { id: 1, url }));
  t.is(lost.message, 'fetch failed: 127.0.0.1 closed the connection before it had answered.');
  const tls = await faultOf(t, ask(run, 'fetch', { id: 2, url: `https://127.0.0.1:${port}/` }));
  t.regex(tls.message, /^fetch failed: (There is no safe connection|127\.0\.0\.1 closed|No connection)/);
  const closed = await faultOf(t, ask(run, 'fetch', { id: 3, url: 'http://127.0.0.1:1/' }));
  t.is(closed.message, 'fetch failed: No connection to 127.0.0.1 could be made.');
  t.false([lost, tls, closed].some(({ message }) => /ECONN|:\d/.test(message.slice('fetch failed:'.length))));
  await run.close();
});

test('an answer without a body has none', async (t) => {
  const url = await serve(t, (_request, response) => void response.writeHead(204).end());
  const run = open();
  t.is((await ask(run, 'fetch', { id: 1, url })).hasBody, false);
  t.deepEqual(await ask(run, 'fetch.read', { id: 1 }), { done: true });
  await run.close();
});
