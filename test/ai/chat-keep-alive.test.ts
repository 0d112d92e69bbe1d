import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import test, { type ExecutionContext } from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { serve } from '#test/support/serve.ts';
import { configure, saying } from './chat-scene.ts';

const platform = usePlatform(test, { settings: { PLINTH_AI_KEEP_ALIVE_MS: '20' } });

/** A project whose provider says nothing until the test answers for it. */
const silentProvider = async (t: ExecutionContext) => {
  const requested = Promise.withResolvers<ServerResponse>();
  const base = await serve(t, (request, response) => {
    response.on('error', () => undefined);
    request.resume();
    requested.resolve(response);
  });
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  await configure(platform(), { user, project }, 'openai', base);
  const open = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${platform().base}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', apikey: project.key },
      body: JSON.stringify(saying('hello', { ...(path.includes('/v1/') && { stream: true }) })),
      ...init,
    });
  return { open, requested: requested.promise, user, project };
};

const paths = ['/api/ai/chat/stream', '/v1/chat/completions'] as const;

const restOf = async (reader: ReadableStreamDefaultReader<string>): Promise<string> => {
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
  }
};

const readerOf = ({ body }: Response): ReadableStreamDefaultReader<string> => {
  if (body === null) throw new Error('there is no body');
  return body.pipeThrough(new TextDecoderStream()).getReader();
};

const firstKeepAlive = async (t: ExecutionContext, response: Response) => {
  t.is(response.status, 200);
  t.regex(response.headers.get('content-type') ?? '', /^text\/event-stream/);
  const reader = readerOf(response);
  t.regex((await reader.read()).value ?? '', /^: keep-alive\n\n/);
  return reader;
};

for (const path of paths) {
  test(`${path} says keep-alive before the first word, and then what the model says`, async (t) => {
    const { open, requested } = await silentProvider(t);
    const reader = await firstKeepAlive(t, await open(path));
    t.regex((await reader.read()).value ?? '', /^: keep-alive\n\n/);
    const provider = await requested;
    provider.writeHead(200, { 'content-type': 'text/event-stream' });
    provider.write('data: {"choices":[{"index":0,"delta":{"content":"at last"},"finish_reason":"stop"}]}\n\n');
    provider.end('data: [DONE]\n\n');
    const text = await restOf(reader);
    t.regex(text, /at last/);
    t.regex(text, path === '/v1/chat/completions' ? /data: \[DONE\]\n\n$/ : /"done":true/);
  });

  test(`${path} tells inside the stream what fails after it has begun`, async (t) => {
    const { open, requested } = await silentProvider(t);
    const reader = await firstKeepAlive(t, await open(path));
    (await requested).writeHead(401).end('{"error":{"message":"no such key","code":"invalid_api_key"}}');
    const text = await restOf(reader);
    t.regex(text, /"error":\{.*"code":"provider_auth_failed"/);
    t.regex(text, path === '/v1/chat/completions' ? /"type":"provider_error"/ : /"done":true/);
  });

  test(`${path} closes the provider's connection when its client leaves before the first word`, async (t) => {
    const { open, requested } = await silentProvider(t);
    const leaving = new AbortController();
    const response = await open(path, { signal: leaving.signal });
    t.is(response.status, 200);
    const provider = await requested;
    const closed = once(provider, 'close');
    leaving.abort();
    await closed;
    t.false(provider.writableEnded);
  });
}

test('a call that ends while the stream is silent has one row, with what became of it', async (t) => {
  const { open, requested, user, project } = await silentProvider(t);
  const reader = await firstKeepAlive(t, await open('/api/ai/chat/stream'));
  (await requested).writeHead(400).end('{"error":{"message":"no"}}');
  await restOf(reader);
  const { body } = await platform().client.call('GET', `/projects/${project.id}/ai/usage`, { token: user.token });
  t.is(body.total_requests, 1);
  t.like(body.recent_logs[0], { status: 'error', error_code: 'provider_rejected', kind: 'stream' });
});
