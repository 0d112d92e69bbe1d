import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import test, { type ExecutionContext } from 'ava';
import { fakeFetch } from './fake-fetch.ts';
import { openRuntime, run } from './harness.ts';

const runtime = await openRuntime();

const big = Buffer.alloc(300_000, 'abcdefg');
const bodyOf = async (request: IncomingMessage): Promise<Buffer> =>
  Buffer.concat((await request.toArray()) as Buffer[]);

const routes: Record<string, (request: IncomingMessage, response: ServerResponse) => void | Promise<void>> = {
  '/echo': async (request, response) => {
    const { method, headers } = request;
    const body = (await bodyOf(request)).toString('latin1');
    response.setHeader('set-cookie', ['a=1', 'b=2']);
    response.end(JSON.stringify({ method, type: headers['content-type'], own: headers['x-own'], body }));
  },
  '/big': (_request, response) => void response.end(big),
  '/moved': (_request, response) => void response.writeHead(302, { location: '/echo' }).end(),
  '/nothing': (_request, response) => void response.writeHead(204).end(),
  '/missing': (_request, response) => void response.writeHead(404, 'Not Here').end('none'),
  '/endless': (_request, response) => void response.writeHead(200).write('first'),
  '/silent': () => undefined,
};

const server = createServer((request, response) => void routes[request.url ?? '']?.(request, response));
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

test.after.always(async () => {
  server.closeAllConnections();
  server.close();
  await runtime.close();
});

/** Runs the body of a handler that knows `url`. */
async function fetching(t: ExecutionContext, body: string, seen: string[] = []): Promise<unknown> {
  const services = fakeFetch(seen);
  const code = `exports.handler = async (url) => { ${body} }`;
  const outcome = await run(runtime, code, { payload: JSON.stringify(url) }, { services });
  await services.close();
  t.is(outcome.status, 'success', JSON.stringify(outcome.error));
  return JSON.parse(outcome.result ?? 'null');
}

test('a response has its head and its body', async (t) => {
  const result = await fetching(
    t,
    `const r = await fetch(url + '/echo', { method: 'post', headers: { 'X-Own': 'é' }, body: JSON.stringify({ a: 1 }) });
     const { body, own, type, method } = await r.json();
     return [r.status, r.ok, r.type, r.url === url + '/echo', r.redirected, r.headers.getSetCookie(), r.bodyUsed, body, own, type, method]`,
  );
  const own = Buffer.from('é', 'latin1').toString('latin1');
  const type = 'text/plain;charset=UTF-8';
  t.deepEqual(result, [200, true, 'basic', true, false, ['a=1', 'b=2'], true, '{"a":1}', own, type, 'POST']);
});

test('every kind of body is sent with its type', async (t) => {
  const result = await fetching(
    t,
    `const form = new FormData(); form.append('f', new Blob(['x']), 'n.txt');
     const bodies = ['t', new Uint8Array([255]), new Blob(['b'], { type: 'x/y' }), new URLSearchParams({ a: 'b c' }), ReadableStream.from([new Uint8Array([115]), new Uint8Array([116])]), form, new Request('http://a', { method: 'POST', body: 'r' }).body];
     return Promise.all(bodies.map(async (body) => { const { type, body: got } = await (await fetch(url + '/echo', { method: 'POST', body, duplex: 'half' })).json(); return [type?.split(';')[0] ?? null, got.replaceAll(/-{4}[^\\r"]+/g, 'B')] }))`,
  );
  t.deepEqual(result, [
    ['text/plain', 't'],
    [null, 'ÿ'],
    ['x/y', 'b'],
    ['application/x-www-form-urlencoded', 'a=b+c'],
    [null, 'st'],
    [
      'multipart/form-data',
      'B\r\nContent-Disposition: form-data; name="f"; filename="n.txt"\r\nContent-Type: application/octet-stream\r\n\r\nx\r\nB\r\n',
    ],
    [null, 'r'],
  ]);
});

test('a body flows as it is read, and is whole', async (t) => {
  const result = await fetching(
    t,
    `let bytes = 0, chunks = 0; for await (const chunk of (await fetch(url + '/big')).body) { bytes += chunk.length; chunks += 1 }
     const text = await (await fetch(url + '/big')).text();
     const [one, two] = await Promise.all((await fetch(url + '/big').then((r) => [r, r.clone()])).map(async (r) => (await r.bytes()).length));
     return [bytes, chunks > 1, text.length, text.slice(-3), one, two]`,
  );
  t.deepEqual(result, [300_000, true, 300_000, big.toString().slice(-3), 300_000, 300_000]);
});

test('redirects are followed, shown or refused, as the request says', async (t) => {
  const result = await fetching(
    t,
    `const followed = await fetch(url + '/moved'); const shown = await fetch(url + '/moved', { redirect: 'manual' });
     const refused = await fetch(url + '/moved', { redirect: 'error' }).catch((error) => [error.name, error instanceof TypeError]);
     return [followed.redirected, followed.url === url + '/echo', shown.status, refused]`,
  );
  t.deepEqual(result, [true, true, 302, ['TypeError', true]]);
});

test('an answer without a body has none, and one that is an error is no failure', async (t) => {
  const result = await fetching(
    t,
    `const none = await fetch(url + '/nothing'); const missing = await fetch(url + '/missing');
     let frozen; try { missing.headers.set('a', 'b') } catch (error) { frozen = error.name }
     return [none.status, none.body, await none.text(), missing.status, missing.ok, missing.statusText, await missing.text(), frozen]`,
  );
  t.deepEqual(result, [204, null, '', 404, false, 'Not Here', 'none', 'TypeError']);
});

test('a failure of the network is a TypeError, with the line that asked', async (t) => {
  const code = `exports.handler = async () => {\n  await fetch('http://127.0.0.1:1/');\n}`;
  const outcome = await run(runtime, code, {}, { services: fakeFetch() });
  t.is(outcome.status, 'error');
  t.is(outcome.error?.name, 'TypeError');
  t.regex(outcome.error?.message ?? '', /^fetch failed: /);
  t.regex(outcome.error?.stack ?? '', /function\.js:2:/);
});

test('an address that is none, or a body that is too large, never leaves', async (t) => {
  const seen: string[] = [];
  const result = await fetching(
    t,
    `const name = (promise) => promise.then(() => 'sent', (error) => [error.name, error.message]);
     return [await name(fetch('/relative')), await name(fetch('http://u:p@h/')), await name(fetch('ftp://h/')), await name(fetch(url + '/echo', { method: 'POST', body: new Uint8Array(10 * 1024 * 1024 + 1) })), await name(fetch(url, { signal: AbortSignal.abort(new RangeError('before')) }))]`,
    seen,
  );
  t.deepEqual(result, [
    ['TypeError', 'Failed to parse URL from /relative'],
    ['TypeError', 'Request cannot be constructed from a URL that includes credentials: http://u:p@h/'],
    ['TypeError', 'fetch failed: there is no "ftp:" here, only "http:" and "https:"'],
    ['TypeError', 'fetch failed: the body of the request is larger than 10 MB'],
    ['RangeError', 'before'],
  ]);
  t.deepEqual(seen, []);
});

test('an endless stream is no body of a request', async (t) => {
  const result = await fetching(
    t,
    `const stream = new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(1024 * 1024)) } });
     return fetch(url + '/echo', { method: 'POST', body: stream, duplex: 'half' }).catch((error) => error.message)`,
  );
  t.is(result, 'fetch failed: the body of the request is larger than 10 MB');
});

test('an abort ends the wait for the head at once and tells the other side', async (t) => {
  const seen: string[] = [];
  const result = await fetching(
    t,
    `const abort = new AbortController(); const waiting = fetch(url + '/silent', { signal: abort.signal }); setTimeout(() => abort.abort(), 20);
     const first = await waiting.catch((error) => [error.name, error === abort.signal.reason]);
     return [first, await fetch(url + '/silent', { signal: AbortSignal.timeout(20) }).catch((error) => error.name)]`,
    seen,
  );
  t.deepEqual(result, [['AbortError', true], 'TimeoutError']);
  t.deepEqual(seen, ['fetch', 'fetch.cancel', 'fetch', 'fetch.cancel']);
});

test('an abort ends the body too, read whole or piece by piece', async (t) => {
  const result = await fetching(
    t,
    `const ends = async (use) => { const abort = new AbortController(); const r = await fetch(url + '/endless', { signal: abort.signal }); setTimeout(() => abort.abort(new RangeError('enough')), 20); return use(r).catch((error) => error.message) };
     return [await ends((r) => r.text()), await ends(async (r) => { for await (const chunk of r.body) ; })]`,
  );
  t.deepEqual(result, ['enough', 'enough']);
});

test('who stops reading a body tells the other side', async (t) => {
  const seen: string[] = [];
  const body = `for await (const chunk of (await fetch(url + '/endless')).body) return new TextDecoder().decode(chunk)`;
  t.is(await fetching(t, body, seen), 'first');
  t.deepEqual(
    seen.filter((op) => op !== 'fetch.read'),
    ['fetch', 'fetch.cancel'],
  );
});

test('many requests at a time keep their answers apart', async (t) => {
  const result = await fetching(
    t,
    `return Promise.all(Array.from({ length: 30 }, async (_, n) => (await (await fetch(url + '/echo', { method: 'POST', body: String(n) })).json()).body))`,
  );
  t.deepEqual(
    result,
    Array.from({ length: 30 }, (_, n) => String(n)),
  );
});

test('without services nothing is fetched', async (t) => {
  const outcome = await run(runtime, `exports.handler = () => fetch('http://a/')`);
  t.is(outcome.status, 'error');
  t.is(outcome.error?.message, 'Nothing outside can be reached from here.');
});
