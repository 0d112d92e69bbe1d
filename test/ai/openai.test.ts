import test from 'ava';
import OpenAI, {
  APIError,
  AuthenticationError,
  BadRequestError,
  ConflictError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from 'openai';
import type { ChatCompletionChunk, ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import { uniqueName } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type ChatScene, createScene, saying } from './chat-scene.ts';

const platform = usePlatform(test, { shared: true });

let scene: ChatScene;

test.before('a project has three providers', async () => {
  scene = await createScene(platform());
});
test.after.always('they are gone', () => scene.upstream.close());

interface Counted {
  readonly openai: OpenAI;
  /** Requests that the client sent. */
  readonly sent: () => number;
}

/** The unmodified client; only how often it asks is counted. */
const clientOf = (apiKey = scene.project.key, baseURL = `${platform().base}/v1`): Counted => {
  let sent = 0;
  const counting: typeof fetch = (input, init) => {
    sent += 1;
    return fetch(input, init);
  };
  return { openai: new OpenAI({ apiKey, baseURL, fetch: counting }), sent: () => sent };
};

const client = (): OpenAI => clientOf().openai;

const received = (text: string) => scene.upstream.requests.filter((request) => request.text === text);

const user = (content: string): ChatCompletionMessageParam[] => [{ role: 'user', content }];

const all = async <T>(stream: AsyncIterable<T>): Promise<T[]> => {
  const found: T[] = [];
  for await (const one of stream) found.push(one);
  return found;
};

const textIn = (chunks: readonly ChatCompletionChunk[]): string =>
  chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('');

const models = ['openai/gpt-4o', 'anthropic/claude-sonnet-4-5', 'google/gemini-2.5-flash'];

for (const model of models) {
  test(`a completion of ${model}`, async (t) => {
    const made = await client().chat.completions.create({ model, messages: user('hello there') });
    t.is(made.object, 'chat.completion');
    t.regex(made.id, /^chatcmpl-/);
    t.true(made.created > 1_700_000_000);
    t.is(made.model, model.slice(model.indexOf('/') + 1));
    t.is(made.choices[0]?.message.role, 'assistant');
    t.is(made.choices[0]?.message.content, 'You said: hello there');
    t.is(made.choices[0]?.finish_reason, 'stop');
    t.like(made.usage, { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 });
  });

  test(`a stream of ${model}, with its usage only for those who ask for it`, async (t) => {
    const body = { model, messages: user('hello there'), stream: true } as const;
    const chunks = await all(await client().chat.completions.create(body));
    t.is(textIn(chunks), 'You said: hello there');
    t.is(new Set(chunks.map(({ id }) => id)).size, 1);
    t.is(chunks[0]?.choices[0]?.delta.role, 'assistant');
    t.is(chunks.at(-1)?.choices[0]?.finish_reason, 'stop');
    t.true(chunks.every(({ choices, usage }) => choices.length === 1 && (usage ?? null) === null));
    const requested = await all(
      await client().chat.completions.create({ ...body, stream_options: { include_usage: true } }),
    );
    t.is(textIn(requested), 'You said: hello there');
    t.is(requested.filter(({ usage }) => usage).length, 1);
    t.deepEqual(requested.at(-1)?.choices, []);
    t.like(requested.at(-1)?.usage, { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 });
  });

  test(`tools of ${model}, whole, in a stream, and their answers back again`, async (t) => {
    const parameters = { type: 'object', properties: { city: { type: 'string' } } };
    const tools = [{ type: 'function', function: { name: 'get_weather', parameters } }] as const;
    const messages = user('TOOLS');
    const whole = await client().chat.completions.create({ model, messages, tools: [...tools] });
    const message = whole.choices[0]?.message;
    t.is(whole.choices[0]?.finish_reason, 'tool_calls');
    const called = message?.tool_calls?.flatMap((call) => (call.type === 'function' ? [call] : [])) ?? [];
    t.deepEqual(
      called.map((call) => call.function.name),
      ['get_weather', 'get_time'],
    );
    const runner = client().chat.completions.stream({ model, messages, tools: [...tools] });
    const streamed = (await runner.finalChatCompletion()).choices[0]?.message.tool_calls ?? [];
    t.deepEqual(
      streamed.map((call) => JSON.parse(call.function.arguments) as unknown),
      [{ city: 'Zürich', days: 2 }, {}],
    );
    if (message === undefined) return;
    const text = uniqueName('and now');
    const answers = called.map(({ id }) => ({ role: 'tool' as const, tool_call_id: id, content: 'sunny' }));
    const next = [...messages, message, ...answers, ...user(text)];
    const done = await client().chat.completions.create({ model, messages: next, tools: [...tools] });
    t.is(done.choices[0]?.message.content, `You said: ${text}`);
  });
}

test('what only OpenAI’s dialect knows goes on to its providers, and comes back as it was', async (t) => {
  const text = uniqueName('extra');
  const more = { seed: 7, n: 1, logit_bias: { '50256': -100 }, user: 'u1', parallel_tool_calls: false };
  const body = { model: 'openai/gpt-4o', messages: user(text), max_completion_tokens: 9, stop: null, ...more };
  await client().chat.completions.create(body);
  t.like(received(text)[0]?.body, { model: 'gpt-4o', max_tokens: 9, ...more });
  t.false('max_completion_tokens' in (received(text)[0]?.body ?? {}));
});

test('embeddings come as base64, as the client asks by itself, or as numbers', async (t) => {
  for (const model of ['openai/text-embedding-3-small', 'google/gemini-embedding-001']) {
    const input = ['alpha', 'beta'];
    const packed = await client().embeddings.create({ model, input, dimensions: 12 });
    const plain = await client().embeddings.create({ model, input, dimensions: 12, encoding_format: 'float' });
    t.is(packed.object, 'list');
    t.deepEqual(
      packed.data.map(({ index, object }) => [index, object]),
      [
        [0, 'embedding'],
        [1, 'embedding'],
      ],
    );
    for (const [at, { embedding }] of plain.data.entries()) {
      t.is(embedding.length, 12);
      t.deepEqual([...(packed.data[at]?.embedding ?? [])], [...Float32Array.from(embedding)]);
    }
    t.is(packed.usage.total_tokens, packed.usage.prompt_tokens);
    t.true(packed.usage.prompt_tokens > 0);
  }
});

test('models are listed and found under the names that chats take', async (t) => {
  const listed = await all(client().models.list());
  const ids = new Set(listed.map(({ id }) => id));
  for (const id of [...models, 'openai/text-embedding-3-small']) t.true(ids.has(id), id);
  t.deepEqual(
    listed.find(({ id }) => id === 'openai/gpt-4o'),
    { id: 'openai/gpt-4o', object: 'model', created: 0, owned_by: 'openai' },
  );
  t.is((await client().models.retrieve('anthropic/claude-sonnet-4-5')).id, 'anthropic/claude-sonnet-4-5');
  t.is((await client().models.retrieve('gemini-2.5-pro')).id, 'google/gemini-2.5-pro');
  for (const name of ['groq/llama-3.3-70b-versatile', 'xai/grok-4'])
    await t.throwsAsync(() => client().models.retrieve(name).asResponse(), { instanceOf: NotFoundError });
});

type ErrorClass = new (...given: never[]) => APIError;

const refusals: readonly [word: string, kind: ErrorClass, status: number, code: string][] = [
  ['CTXLEN', BadRequestError, 400, 'context_length_exceeded'],
  ['ERR400', BadRequestError, 400, 'provider_rejected'],
  ['ERR401', APIError, 424, 'provider_auth_failed'],
  ['ERR404', NotFoundError, 404, 'model_not_found'],
];

for (const stream of [false, true]) {
  test(`what a provider refuses is an error of the client’s own kinds, asked once (stream: ${stream})`, async (t) => {
    for (const [word, kind, status, code] of refusals) {
      const { openai, sent } = clientOf();
      const ask = openai.chat.completions.create({
        model: 'openai/gpt-4o',
        messages: user(`${word} ${stream}`),
        stream,
      });
      const error = await t.throwsAsync(() => ask, { instanceOf: kind });
      t.like(error, { status, code });
      t.regex(error.requestID ?? '', /^[\w-]+$/);
      t.is(sent(), 1, word);
    }
  });
}

test('a provider that is not configured is a conflict that the client does not retry', async (t) => {
  const { openai, sent } = clientOf();
  const ask = openai.chat.completions.create({ model: 'groq/llama-3.3-70b-versatile', messages: user('hi') });
  const error = await t.throwsAsync(() => ask, { instanceOf: ConflictError });
  t.like(error, { status: 409, code: 'provider_not_configured', param: 'model' });
  t.is(sent(), 1);
});

test('a provider that limits is asked again by the client when it may be', async (t) => {
  const { openai, sent } = clientOf();
  const text = `ERR429:11 ${uniqueName('limited')}`;
  const ask = openai.chat.completions.create({ model: 'openai/gpt-4o', messages: user(text) }, { maxRetries: 0 });
  const error = await t.throwsAsync(() => ask, { instanceOf: RateLimitError });
  t.is(error.code, 'provider_rate_limited');
  t.is(error.headers?.get('retry-after'), '11');
  t.is(sent(), 1);
  t.is(received(text).length, 1);
});

test('a stream that breaks is an error of the client, after what came', async (t) => {
  for (const model of models) {
    for (const word of ['CUT', 'CUTCLEAN', 'ERROREVENT']) {
      const got: string[] = [];
      const read = async (): Promise<void> => {
        const body = { model, messages: user(`${word} ${model}`), stream: true } as const;
        for await (const { choices } of await client().chat.completions.create(body))
          got.push(choices[0]?.delta.content ?? '');
      };
      const error = await t.throwsAsync(read, { instanceOf: APIError });
      t.regex(String(error.code), /^provider_/, word);
      t.is(got.join(''), 'You said: ', `${model} ${word}`);
    }
  }
});

test('a client that breaks off a stream leaves the provider, too', async (t) => {
  for (const model of models) {
    const text = `STALL ${model}`;
    const stream = await client().chat.completions.create({ model, messages: user(text), stream: true });
    for await (const { choices } of stream) if (choices[0]?.delta.content) break;
    await until(() => received(text)[0]?.closedAt);
  }
  t.pass();
});

test('keys that may not are refused as the client understands it', async (t) => {
  const { client: platformClient } = platform();
  const other = await platformClient.createProject(scene.user);
  const below = `${platform().base}/p/${scene.project.ref}/v1`;
  for (const [key, base, kind, code] of [
    ['nonsense', undefined, AuthenticationError, 'unauthenticated'],
    [scene.user.token, undefined, AuthenticationError, 'unauthenticated'],
    [other.key, below, AuthenticationError, 'unauthenticated'],
    [scene.project.publishableKey, undefined, PermissionDeniedError, 'forbidden'],
  ] as const) {
    const { openai, sent } = clientOf(key, base);
    for (const ask of [
      () => openai.models.list(),
      () => openai.models.retrieve('x'),
      () => openai.embeddings.create({ model: 'x', input: 'x' }),
      () => openai.chat.completions.create({ model: 'x', messages: [] }),
    ]) {
      const error = await t.throwsAsync(async () => ask(), { instanceOf: kind });
      t.is(error.code, code);
    }
    t.is(sent(), 4);
  }
});

test('the surface is also below the project’s own address, and takes the key in any of its headers', async (t) => {
  const below = `${platform().base}/p/${scene.project.ref}/v1`;
  const made = await clientOf(scene.project.key, below).openai.chat.completions.create({
    model: 'gpt-4o',
    messages: user('below'),
  });
  t.is(made.choices[0]?.message.content, 'You said: below');
  for (const headers of [{ 'x-api-key': scene.project.key }, { apikey: scene.project.key }]) {
    const answer = await platform().client.call('POST', '/v1/chat/completions', { headers, body: saying('headers') });
    t.is(answer.status, 200);
  }
});

test('pages of any origin may use it: the headers of the client are allowed', async (t) => {
  const requested = 'authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-retry-count';
  const headers = {
    origin: 'https://shop.example',
    'access-control-request-method': 'POST',
    'access-control-request-headers': requested,
  };
  const answer = await platform().client.call('OPTIONS', '/v1/chat/completions', { headers });
  t.is(answer.status, 204);
  t.is(answer.headers.get('access-control-allow-origin'), '*');
  const allowed = answer.headers.get('access-control-allow-headers')?.toLowerCase().split(', ') ?? [];
  for (const name of requested.split(',')) t.true(allowed.includes(name), name);
});

test('the bytes of a stream end with the marker that clients wait for', async (t) => {
  for (const model of models) {
    const body = saying('hello there', { model, stream: true });
    const answer = await platform().client.call('POST', '/v1/chat/completions', { key: scene.project.key, body });
    t.is(answer.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    t.true(answer.text.endsWith('}\n\ndata: [DONE]\n\n'));
    t.true(answer.text.split('\n\n').every((event) => event === '' || event.startsWith('data: ')));
  }
});
