import test from 'ava';
import { type AiUpstream, startAiUpstream } from '#test/support/ai-upstream.ts';
import type { Answer } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type ChatScene, configure, createScene, eventsIn, saying } from './chat-scene.ts';

const platform = usePlatform(test);

let scene: ChatScene;

test.before('a project has three providers', async () => {
  scene = await createScene(platform());
});
test.after.always('they are gone', () => scene.upstream.close());

const ask = (path: string, body: unknown): Promise<Answer> =>
  platform().client.call('POST', `/projects/${scene.project.id}/ai${path}`, { token: scene.user.token, body });

const askByKey = (path: string, body: unknown): Promise<Answer> =>
  platform().client.call('POST', `/api/ai${path}`, { key: scene.project.key, body });

/** The request that brought that text to a provider. */
const received = (text: string, { requests }: AiUpstream = scene.upstream) =>
  requests.find((request) => request.text === text);

const models = { openai: 'gpt-4o', anthropic: 'claude-sonnet-4-5', google: 'gemini-2.5-flash' } as const;

for (const [provider, model] of Object.entries(models)) {
  test(`${provider} answers in the one form, by sign-in and by key`, async (t) => {
    const byUser = await ask('/chat', saying('hello there', { model: `${provider}/${model}` }));
    const byKey = await askByKey('/chat', saying('hello there', { model: `${provider}/${model}` }));
    for (const { status, body } of [byUser, byKey]) {
      t.is(status, 200);
      t.true(Number.isInteger(body.latency_ms) && body.latency_ms >= 0);
      t.deepEqual(
        { ...body, latency_ms: 0 },
        {
          content: 'You said: hello there',
          model,
          provider,
          usage: { prompt_tokens: 11, completion_tokens: 5 },
          latency_ms: 0,
          finish_reason: 'stop',
        },
      );
    }
  });

  test(`${provider} streams in the one form, by sign-in and by key`, async (t) => {
    for (const how of [ask, askByKey]) {
      const answer = await how('/chat/stream', saying('hello there', { model: `${provider}/${model}` }));
      t.is(answer.status, 200);
      t.is(answer.headers.get('content-type'), 'text/event-stream; charset=utf-8');
      t.is(answer.headers.get('cache-control'), 'no-store');
      t.is(answer.headers.get('x-accel-buffering'), 'no');
      t.notRegex(answer.text, /\r/);
      t.true(answer.text.endsWith('}\n\n'));
      const events = eventsIn(answer.text);
      const end = events.pop();
      t.is(events.map(({ chunk }) => chunk).join(''), 'You said: hello there');
      t.true(events.every(({ elapsed_ms: ms }, at) => ms >= (events[at - 1]?.elapsed_ms ?? 0)));
      const { done, ttft_ms: ttft, total_tokens: total, usage } = end;
      t.deepEqual(
        { done, total, usage },
        { done: true, total: 16, usage: { prompt_tokens: 11, completion_tokens: 5 } },
      );
      t.true(Number.isInteger(ttft) && ttft <= events[0].elapsed_ms + 1);
    }
  });

  test(`${provider} calls tools, whole and in a stream`, async (t) => {
    const parameters = { type: 'object', properties: { city: { type: 'string' } } };
    const tools = [{ type: 'function', function: { name: 'get_weather', parameters } }];
    const body = saying('TOOLS', { model: `${provider}/${model}`, tools, tool_choice: 'auto' });
    const whole = await ask('/chat', body);
    t.is(whole.status, 200, whole.text);
    t.is(whole.body.finish_reason, 'tool_calls');
    t.deepEqual(
      whole.body.tool_calls.map((call: { function: { name: string } }) => call.function.name),
      ['get_weather', 'get_time'],
    );
    t.deepEqual(JSON.parse(whole.body.tool_calls[0].function.arguments), { city: 'Zürich', days: 2 });
    const events = eventsIn((await ask('/chat/stream', body)).text);
    const parts = events.flatMap(({ tool_calls: calls }) => calls ?? []).filter(({ index }) => index === 0);
    t.deepEqual(JSON.parse(parts.map((part) => part.arguments ?? '').join('')), { city: 'Zürich', days: 2 });
    t.is(events.at(-1).finish_reason, 'tool_calls');
  });
}

test('what is asked for reaches the provider, and nothing else', async (t) => {
  const chatRequest = {
    temperature: 0.5,
    max_tokens: 7,
    top_p: 0.9,
    stop: ['END'],
    response_format: { type: 'json_object' },
  };
  const call = { id: 'call_1', type: 'function', function: { name: 'now', arguments: '{}' } };
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'what reaches it' }] },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', content: 'noon', tool_call_id: 'call_1' },
  ];
  t.is((await ask('/chat', { model: 'openai/gpt-4o', messages, ...chatRequest })).status, 200);
  const { stream: _stream, ...sent } = received('what reaches it')?.body ?? {};
  t.deepEqual(sent, { model: 'gpt-4o', messages, ...chatRequest });
});

test('a stream that fails before its first event is a plain error', async (t) => {
  for (const [word, status, code] of [
    ['ERR401', 424, 'provider_auth_failed'],
    ['CTXLEN', 400, 'context_length_exceeded'],
    ['ERR400', 400, 'provider_rejected'],
  ] as const) {
    isError(t, await ask('/chat/stream', saying(`${word} before`)), status, code);
  }
});

test('a stream that breaks later says so in its last event', async (t) => {
  for (const word of ['CUT', 'CUTCLEAN', 'ERROREVENT', 'MALFORMED']) {
    const answer = await ask('/chat/stream', saying(`${word} later`));
    t.is(answer.status, 200);
    const events = eventsIn(answer.text);
    t.deepEqual(Object.keys(events.at(-1)), ['error', 'done'], word);
    t.deepEqual(Object.keys(events.at(-1).error), ['code', 'message'], word);
    t.is(events.filter(({ done }) => done).length, 1, word);
    t.is(typeof events[0].chunk, 'string', word);
  }
});

test('the provider is left when the client leaves, before the first event and in the middle', async (t) => {
  for (const [text, isStream] of [
    ['BLACKHOLE whole', false],
    ['BLACKHOLE stream', true],
    ['STALL stream', true],
  ] as const) {
    const aborter = new AbortController();
    const requested = fetch(`${platform().base}/api/ai/chat${isStream ? '/stream' : ''}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', apikey: scene.project.key },
      body: JSON.stringify(saying(text)),
      signal: aborter.signal,
    });
    const request = await until(() => received(text));
    if (text.startsWith('STALL')) await (await requested).body?.getReader().read();
    t.is(request.closedAt, null);
    aborter.abort();
    await until(() => request.closedAt !== null);
    await requested.catch(() => undefined);
  }
});

test('embeddings of one text and of several', async (t) => {
  const model = 'openai/text-embedding-3-small';
  const one = await ask('/embeddings', { model, input: 'alpha' });
  t.is(one.status, 200, one.text);
  const { embeddings, ...rest } = one.body;
  t.deepEqual(rest, {
    dimensions: 8,
    model: 'text-embedding-3-small',
    provider: 'openai',
    usage: { prompt_tokens: 3 },
  });
  const several = await ask('/embeddings', { model, input: ['alpha', 'beta'], dimensions: 4 });
  t.deepEqual(
    several.body.embeddings.map((vector: number[]) => vector.length),
    [4, 4],
  );
  t.is(several.body.dimensions, 4);
  t.is(embeddings[0].length, 8);
  isError(t, await ask('/embeddings', { model: 'anthropic/claude-sonnet-4-5', input: 'a' }), 400, 'not_supported');
});

test('another project’s models are not there, and neither is its key', async (t) => {
  const { client } = platform();
  const stranger = await client.signUp();
  const bare = await client.createProject(stranger);
  const path = `/projects/${scene.project.id}/ai/chat`;
  isError(t, await client.call('POST', path, { token: stranger.token, body: saying('mine') }), 404, 'not_found');
  const answer = await client.call('POST', '/api/ai/chat', { key: bare.key, body: saying('mine') });
  isError(t, answer, 409, 'provider_not_configured');
  t.is(received('mine'), undefined);
});

test('a paused project asks nobody', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const upstream = await startAiUpstream();
  t.teardown(upstream.close);
  await configure(platform(), { user, project }, 'openai', upstream.openai);
  await db.query(`update projects set status = 'paused' where id = $1`, [project.id]);
  for (const path of ['/chat', '/chat/stream']) {
    const url = `/projects/${project.id}/ai${path}`;
    isError(t, await client.call('POST', url, { token: user.token, body: saying('hi') }), 409, 'project_not_ready');
  }
  t.is(upstream.requests.length, 0);
});
