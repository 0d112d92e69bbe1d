import test, { type ExecutionContext } from 'ava';
import { type ServerResponse, createServer } from 'node:http';
import { once } from 'node:events';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { ProviderFault } from '#domain/ai/providers/dialect.ts';
import { type Times, usualTimes } from '#domain/ai/providers/transport.ts';
import { chatWith, faultIn, peerFor, saying, streamWith, transportFor } from '#test/support/ai-talk.ts';
import { aiUpstreamFor } from '#test/support/ai-upstream.ts';
import { serve } from '#test/support/serve.ts';
import { until } from '#test/support/until.ts';

const get = (url: string) => ({ method: 'GET', url, headers: {}, body: null }) as const;
const call = () => ({ signal: new AbortController().signal });
const hurried = (times: Partial<Times>): Times => ({ ...usualTimes, ...times });

test('a time-out is told for each of: no answer, no first event, a stall, all too long', async (t) => {
  const upstream = await aiUpstreamFor(t);
  const kindOf = async (word: string, times: Partial<Times>): Promise<string> => {
    const transport = transportFor(t, hurried(times));
    const fault = await faultIn(streamWith(peerFor(t, 'openai', upstream.openai, { transport }), saying(word)));
    return fault.kind;
  };
  t.is(await kindOf('BLACKHOLE', { firstByteMs: 50 }), 'timeout');
  t.is(await kindOf('STALL a b c', { idleMs: 50 }), 'timeout');
  t.is(await kindOf('STALL a b c', { totalMs: 50 }), 'timeout');
  upstream.answerWith(() => ({ firstToken: new Promise(() => undefined) }));
  t.is(await kindOf('hello', { firstByteMs: 50 }), 'timeout');
  await until(() => upstream.requests.every(({ closedAt }) => closedAt !== null));
});

test('an answer that is asked for whole is given up, too', async (t) => {
  const upstream = await aiUpstreamFor(t);
  const transport = transportFor(t, hurried({ firstByteMs: 50 }));
  const peer = peerFor(t, 'anthropic', upstream.anthropic, { transport });
  t.is((await faultIn(chatWith(peer, saying('BLACKHOLE')))).kind, 'timeout');
});

test('a connection that is refused, reset or cut is a fault without addresses', async (t) => {
  const upstream = await aiUpstreamFor(t);
  const peer = peerFor(t, 'openai', upstream.openai);
  const reset = await faultIn(chatWith(peer, saying('RESET')));
  t.like(reset, { kind: 'unreachable', message: 'The provider could not be reached.' });
  t.is((await faultIn(chatWith(peer, saying('RESETHEADERS')))).kind, 'cut');
  const server = createTcpServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  const refused = await faultIn(chatWith(peerFor(t, 'openai', `http://127.0.0.1:${port}`), saying('hello')));
  t.is(refused.kind, 'unreachable');
  t.notRegex(refused.message, /127|\d{4}/);
});

test('an address that is not open is refused, before and after its name is looked up', async (t) => {
  const transport = transportFor(t, usualTimes, '');
  for (const url of ['http://127.0.0.1:1/v1', 'http://localhost:1', 'ftp://example.com', 'http://u:p@example.com']) {
    const fault = await faultIn(transport.send(get(url), call()));
    t.like(fault, { kind: 'refused_address', message: 'The address of the provider may not be reached from here.' });
  }
});

test('a redirect is not followed', async (t) => {
  let requested = 0;
  const base = await serve(t, (_request, response) => {
    requested += 1;
    response.writeHead(302, { location: '/elsewhere' }).end();
  });
  const transport = transportFor(t);
  t.like(await faultIn(transport.send(get(base), call())), { kind: 'bad_answer', status: 302 });
  t.like(await faultIn(transport.openStream(get(base), call())), { kind: 'bad_answer', status: 302 });
  t.is(requested, 2);
});

test('what is no HTTP is a bad answer', async (t) => {
  const server = createTcpServer((socket) => socket.on('error', () => undefined).end('SSH-2.0-server\r\n'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  t.is((await faultIn(transportFor(t).send(get(`http://127.0.0.1:${port}`), call()))).kind, 'bad_answer');
});

test('an answer beyond 4 MB is not kept', async (t) => {
  const block = Buffer.alloc(1_000_000, 'x');
  const base = await serve(t, (_request, response) => {
    response.on('error', () => undefined);
    for (let at = 0; at < 5; at += 1) response.write(block);
    response.end();
  });
  t.is((await faultIn(transportFor(t).send(get(base), call()))).kind, 'bad_answer');
});

test('JSON in place of a stream is a bad answer', async (t) => {
  const base = await serve(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  t.is((await faultIn(transportFor(t).openStream(get(base), call()))).kind, 'bad_answer');
});

const abortAt = async (t: ExecutionContext, word: string, isOpen: (pieces: number) => boolean): Promise<void> => {
  const upstream = await aiUpstreamFor(t);
  const controller = new AbortController();
  let pieces = 0;
  const peer = peerFor(t, 'openai', upstream.openai, { signal: controller.signal });
  const work = faultIn(
    streamWith(peer, saying(word), () => {
      pieces += 1;
    }),
  );
  await until(() => upstream.requests.length === 1 && isOpen(pieces));
  controller.abort();
  t.is((await work).kind, 'cut');
  await until(() => upstream.requests[0]?.closedAt);
};

test('when nobody waits any more before the headers, the connection is closed', (t) =>
  abortAt(t, 'BLACKHOLE', () => true));
test('when nobody waits any more before the first event, the connection is closed', (t) =>
  abortAt(t, 'STALLFIRST', () => true));
test('when nobody waits any more within a stream, the connection is closed', (t) =>
  abortAt(t, 'STALL a b c', (pieces) => pieces === 2));

test('who has left already asks nothing', async (t) => {
  const upstream = await aiUpstreamFor(t);
  const peer = peerFor(t, 'openai', upstream.openai, { signal: AbortSignal.abort() });
  t.is((await faultIn(chatWith(peer, saying('hello')))).kind, 'cut');
  t.is((await faultIn(streamWith(peer, saying('hello')))).kind, 'cut');
  t.is(upstream.requests.length, 0);
});

test('who stops reading closes the connection', async (t) => {
  const upstream = await aiUpstreamFor(t);
  const transport = transportFor(t);
  const { target } = peerFor(t, 'openai', upstream.openai);
  const outgoing = { ...get(`${target.baseUrl}/chat/completions`), method: 'POST' as const };
  const body = JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'STALL a b c' }] });
  const opened = await transport.openStream({ ...outgoing, body }, call());
  if (!opened.ok) throw new Error('no stream');
  for await (const events of opened.events) {
    t.true(events.length > 0);
    break;
  }
  await until(() => upstream.requests[0]?.closedAt);
});

test('an answer that says to be too long is refused before any of it has come', async (t) => {
  for (const [status, length] of [
    [200, 4_000_001],
    [500, 65_537],
  ] as const) {
    const base = await serve(t, (_request, response) => {
      response.writeHead(status, { 'content-length': length }).flushHeaders();
    });
    const fault = await faultIn(transportFor(t).send(get(base), call()));
    t.like(fault, { kind: 'bad_answer', message: `The answer is longer than ${length - 1} bytes.` });
  }
});

test('a connection is used again after a stream, also one whose rest was released', async (t) => {
  const ports = new Set<number | undefined>();
  const server = createServer((request, response: ServerResponse) => {
    ports.add(request.socket.remotePort);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('data: 1\n\ndata: 2\n\n');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const transport = transportFor(t);
  for (const rest of ['read', 'released', 'read']) {
    const opened = await transport.openStream(
      get(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
      call(),
    );
    if (!opened.ok) throw new Error('no stream');
    await opened.events.next();
    if (rest === 'released') opened.events.release();
    else while (!(await opened.events.next()).done);
    // The released one ends on its own; its end is not told.
    await new Promise(setImmediate);
  }
  t.is(ports.size, 1);
});

test('a provider is kept waiting by a reader that does not read, and nothing is lost', async (t) => {
  let sent = 0;
  const event = `data: "${'x'.repeat(10_000)}"\n\n`;
  const total = 1500;
  const base = await serve(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const pour = (): void => {
      while (sent < total) {
        sent += 1;
        if (response.write(event)) continue;
        response.once('drain', pour);
        return;
      }
      response.end();
    };
    pour();
  });
  const opened = await transportFor(t).openStream(get(base), call());
  if (!opened.ok) throw new Error('no stream');
  let [before, rests] = [-1, 0];
  // It has come to rest when the buffers of both ends are full: then nothing goes out for ten looks.
  await until(() => {
    rests = sent === before ? rests + 1 : 0;
    before = sent;
    return rests === 10;
  });
  t.true(sent < total, `${sent} events of 10 KB went out with nobody reading`);
  let received = 0;
  for await (const events of opened.events) received += events.length;
  t.is(received, total);
});

test('a thousand streams at once are all whole', async (t) => {
  const upstream = await aiUpstreamFor(t);
  const peer = peerFor(t, 'anthropic', upstream.anthropic);
  const receivedAnswers = await Promise.all(
    Array.from({ length: 1000 }, (_, index) => streamWith(peer, saying(`number ${index}`))),
  );
  t.true(receivedAnswers.every(({ text, complete }, index) => complete && text === `You said: number ${index}`));
});

test('faults of the transport are ProviderFaults only', async (t) => {
  const transport = transportFor(t);
  const outgoing = { ...get('http://127.0.0.1:9/'), headers: { authorization: 'Bearer a\nb' } };
  t.true((await faultIn(transport.send(outgoing, call()))) instanceof ProviderFault);
  t.is((await faultIn(transport.send(get('not a url'), call()))).kind, 'refused_address');
});
