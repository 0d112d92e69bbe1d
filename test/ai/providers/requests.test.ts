import test from 'ava';
import type { ChatRequest } from '#domain/ai/chat.ts';
import { type ProviderName, dialectOf } from '#domain/ai/providers/providers.ts';
import type { Dialect, Outgoing, Target } from '#domain/ai/providers/dialect.ts';
import { faultIn, saying } from '#test/support/ai-talk.ts';

const apiKey = 'sk-test-key-1234';
const vendor = (baseUrl: string): Target => ({ baseUrl, apiKey, isVendor: true });
const own = (baseUrl: string): Target => ({ baseUrl, apiKey, isVendor: false });
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of every shape
const bodyOf = (outgoing: Outgoing): any => JSON.parse(outgoing.body ?? 'null');
// oxlint-disable-next-line typescript/no-explicit-any -- as above
const chatBody = (provider: ProviderName, request: ChatRequest, target = vendor('https://p.example')): any =>
  bodyOf(dialectOf(provider).chat(target, request, false));

const schema = { type: 'object', properties: { sql: { type: 'string', minLength: 1 } }, required: ['sql'] };
const inJson = { response_format: { type: 'json_schema', json_schema: { name: 'a', schema } } } as const;
const weather = { type: 'function', function: { name: 'get_weather', description: 'd', parameters: schema } } as const;
const call = (id: string, text: string) =>
  ({ id, type: 'function', function: { name: 'get_weather', arguments: text } }) as const;

/** A talk with everything in it. */
const talk: ChatRequest = {
  model: 'claude-sonnet-4-5',
  messages: [
    { role: 'system', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        { type: 'image_url', image_url: { url: 'https://example.com/a.webp?x=1' } },
      ],
    },
    { role: 'developer', content: 'Metric units.' },
    { role: 'assistant', content: null, tool_calls: [call('c1', '{"city":"Bern"}'), call('c2', 'not json')] },
    { role: 'tool', tool_call_id: 'c1', content: '{"degrees":4}' },
    { role: 'tool', tool_call_id: 'c2', content: 'unknown' },
    { role: 'user', content: 'Well?' },
  ],
};

test('OpenAI itself is asked for max_completion_tokens and keeps developers, others are not', (t) => {
  const request = { ...talk, max_tokens: 5 };
  const openAi = chatBody('openai', request);
  t.like(openAi, { max_completion_tokens: 5, max_tokens: undefined });
  t.is(openAi.messages[2].role, 'developer');
  for (const [provider, target] of [
    ['openai', own('http://own/v1')],
    ['groq', vendor('https://g/v1')],
    ['xai', vendor('https://x/v1')],
  ] as const) {
    const body = chatBody(provider, request, target);
    t.like(body, { max_completion_tokens: undefined, max_tokens: 5 });
    t.is(body.messages[2].role, 'system');
  }
});

test('further fields go to OpenAI-compatible providers, and cannot change what the platform decides', (t) => {
  const extra = {
    seed: 7,
    n: 2,
    model: 'other',
    messages: [],
    stream: false,
    stream_options: { include_usage: false, a: 1 },
  };
  const outgoing = dialectOf('openai').chat(vendor('https://p/v1'), saying('hi', { extra }), true);
  t.like(bodyOf(outgoing), {
    seed: 7,
    n: 2,
    model: 'some-model',
    messages: [{ role: 'user', content: 'hi' }],
    stream: true,
    stream_options: { include_usage: true, a: 1 },
  });
  t.is(chatBody('openai', saying('hi', { extra })).stream_options, undefined);
  t.is(chatBody('anthropic', saying('hi', { extra })).seed, undefined);
  t.is(chatBody('google', saying('hi', { extra })).seed, undefined);
});

test('DeepSeek is told of a schema in words, its own servers only', (t) => {
  const body = chatBody('deepseek', saying('hi', inJson));
  t.deepEqual(body.response_format, { type: 'json_object' });
  t.regex(body.messages[0].content, /"sql"/);
  t.like(chatBody('deepseek', saying('hi', inJson), own('http://own')), inJson);
});

const urlsOf = (dialect: Dialect, baseUrl: string): readonly string[] => {
  const target = vendor(baseUrl);
  return [
    dialect.chat(target, saying('hi', { model: 'm' }), false).url,
    dialect.chat(target, saying('hi', { model: 'm' }), true).url,
    dialect.models(target, null).url,
    dialect.models(target, 'a&b').url,
  ];
};

test('base URLs are taken as the vendors have them, with the version and without', (t) => {
  t.deepEqual(urlsOf(dialectOf('groq'), 'https://p/openai/v1'), [
    'https://p/openai/v1/chat/completions',
    'https://p/openai/v1/chat/completions',
    'https://p/openai/v1/models',
    'https://p/openai/v1/models',
  ]);
  for (const base of ['https://p/x', 'https://p/x/v1']) {
    t.deepEqual(urlsOf(dialectOf('anthropic'), base), [
      'https://p/x/v1/messages',
      'https://p/x/v1/messages',
      'https://p/x/v1/models?limit=1000',
      'https://p/x/v1/models?limit=1000&after_id=a%26b',
    ]);
  }
  for (const base of ['https://p', 'https://p/v1beta']) {
    t.deepEqual(urlsOf(dialectOf('google'), base), [
      'https://p/v1beta/models/m:generateContent',
      'https://p/v1beta/models/m:streamGenerateContent?alt=sse',
      'https://p/v1beta/models?pageSize=1000',
      'https://p/v1beta/models?pageSize=1000&pageToken=a%26b',
    ]);
  }
});

test('a key is in a header and nowhere else', (t) => {
  for (const provider of ['openai', 'anthropic', 'google'] as const) {
    const dialect = dialectOf(provider);
    const target = vendor('https://p');
    for (const outgoing of [dialect.chat(target, saying('hi'), true), dialect.models(target, null)]) {
      t.is(Object.values(outgoing.headers).filter((value) => value.includes(apiKey)).length, 1);
      t.false(`${outgoing.url} ${outgoing.body}`.includes(apiKey));
    }
  }
});

const googleUrl = (model: string): string =>
  dialectOf('google').chat(vendor('https://p'), saying('hi', { model }), false).url;

test('a model is one segment of a path at Google, whatever is in its name', (t) => {
  t.is(googleUrl('models/gemini-x'), 'https://p/v1beta/models/gemini-x:generateContent');
  t.is(googleUrl('tunedModels/mine'), 'https://p/v1beta/tunedModels/mine:generateContent');
  t.is(googleUrl('../../v1/files?a=b#'), 'https://p/v1beta/models/..%2F..%2Fv1%2Ffiles%3Fa%3Db%23:generateContent');
});

test('Anthropic gets instructions apart, turns, images, tool calls and all their answers in one turn', (t) => {
  const body = chatBody('anthropic', talk);
  t.is(body.system, 'Be brief.\n\nMetric units.');
  t.deepEqual(body.messages, [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
        { type: 'image', source: { type: 'url', url: 'https://example.com/a.webp?x=1' } },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'tool_use', id: 'c1', name: 'get_weather', input: { city: 'Bern' } },
        { type: 'tool_use', id: 'c2', name: 'get_weather', input: { text: 'not json' } },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'c1', content: '{"degrees":4}' },
        { type: 'tool_result', tool_use_id: 'c2', content: 'unknown' },
        { type: 'text', text: 'Well?' },
      ],
    },
  ]);
});

test('Google gets the same in its own words', (t) => {
  const body = chatBody('google', { ...talk, model: 'gemini-2.5-flash' });
  t.deepEqual(body.systemInstruction, { parts: [{ text: 'Be brief.\n\nMetric units.' }] });
  t.deepEqual(body.contents, [
    {
      role: 'user',
      parts: [
        { text: 'What is this?' },
        { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
        { fileData: { mimeType: 'image/webp', fileUri: 'https://example.com/a.webp?x=1' } },
      ],
    },
    {
      role: 'model',
      parts: [
        { functionCall: { name: 'get_weather', args: { city: 'Bern' } } },
        { functionCall: { name: 'get_weather', args: { text: 'not json' } } },
      ],
    },
    {
      role: 'user',
      parts: [
        { functionResponse: { name: 'get_weather', response: { degrees: 4 } } },
        { functionResponse: { name: 'get_weather', response: { text: 'unknown' } } },
        { text: 'Well?' },
      ],
    },
  ]);
  const newer = chatBody('google', { ...talk, model: 'gemini-3-pro' });
  t.truthy(newer.contents[1].parts[0].thoughtSignature);
});

test('settings have the names of each dialect', (t) => {
  const request = saying('hi', {
    ...inJson,
    model: 'claude-sonnet-4-5',
    temperature: 1.5,
    top_p: 0.5,
    max_tokens: 9,
    stop: 'END',
    tools: [weather],
    tool_choice: { type: 'function', function: { name: 'get_weather' } },
  });
  const anthropic = chatBody('anthropic', request);
  t.like(anthropic, { max_tokens: 9, temperature: 1, top_p: undefined, stop_sequences: ['END'], system: undefined });
  t.like(anthropic, { tool_choice: { type: 'tool', name: 'get_weather' } });
  t.deepEqual(anthropic.tools, [{ name: 'get_weather', description: 'd', input_schema: schema }]);
  t.is(anthropic.output_config.format.type, 'json_schema');
  const google = chatBody('google', request);
  t.deepEqual(google.generationConfig, {
    temperature: 1.5,
    topP: 0.5,
    maxOutputTokens: 9,
    stopSequences: ['END'],
    responseMimeType: 'application/json',
    responseJsonSchema: schema,
  });
  t.deepEqual(google.toolConfig, { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['get_weather'] } });
});

const choose = (tool_choice: 'none' | 'auto' | 'required'): ChatRequest =>
  saying('hi', { tools: [weather], tool_choice });

test('a choice of tools is translated, and left out where there are no tools', (t) => {
  t.deepEqual(
    (['none', 'auto', 'required'] as const).map((one) => chatBody('anthropic', choose(one)).tool_choice.type),
    ['none', 'auto', 'any'],
  );
  t.deepEqual(
    (['none', 'auto', 'required'] as const).map(
      (one) => chatBody('google', choose(one)).toolConfig.functionCallingConfig.mode,
    ),
    ['NONE', 'AUTO', 'ANY'],
  );
  t.is(chatBody('anthropic', saying('hi', { tools: [], tool_choice: 'auto' })).tool_choice, undefined);
});

test('embeddings are asked for as each takes them, and Anthropic has none', async (t) => {
  const request = { model: 'm', input: ['a', 'b'], dimensions: 3 };
  t.deepEqual(bodyOf(dialectOf('openai').embeddings(vendor('https://p/v1'), request)), {
    ...request,
    encoding_format: 'base64',
  });
  t.is(bodyOf(dialectOf('openai').embeddings(own('https://p/v1'), request)).encoding_format, 'float');
  const google = dialectOf('google').embeddings(vendor('https://p'), request);
  t.is(google.url, 'https://p/v1beta/models/m:batchEmbedContents');
  t.deepEqual(bodyOf(google).requests[1], {
    model: 'models/m',
    content: { parts: [{ text: 'b' }] },
    outputDimensionality: 3,
  });
  const none = async () => dialectOf('anthropic').embeddings(vendor('https://p'), request);
  t.is((await faultIn(none())).kind, 'bad_request');
});

test('an image whose data URL is wrongly escaped is no error of ours', (t) => {
  const url = 'data:image/svg+xml,%zz%';
  const request = saying('', { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] });
  t.is(chatBody('anthropic', request).messages[0].content[0].source.media_type, 'image/svg+xml');
});

test('JSON of more than 64 KB in arguments or answers of tools is passed on as text, unread', (t) => {
  const long = `[${'{},'.repeat(30_000)}{}]`;
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: long } } as const;
  const messages = [
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', content: long, tool_call_id: 'c' },
  ] as const;
  const target = { baseUrl: 'http://x', apiKey: 'k', isVendor: true };
  const sent = (provider: 'anthropic' | 'google'): string =>
    dialectOf(provider).chat(target, { model: 'm', messages }, false).body ?? '';
  t.true(sent('anthropic').includes(`"input":{"text":${JSON.stringify(long)}}`));
  t.true(sent('google').includes(`"args":{"text":${JSON.stringify(long)}}`));
  t.true(sent('google').includes(`"response":{"text":${JSON.stringify(long)}}`));
});
