import test from 'ava';
import { expectFieldRefused, expectShapeRefused } from '#test/support/malformed.ts';
import type { Answer, TestProject } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { saying } from './chat-scene.ts';

const platform = usePlatform(test, { shared: true });
const limited = usePlatform(test, { settings: { PLINTH_RATE_LIMITS: 'on', PLINTH_RATE_LIMIT_AI_FREE: '2' } });

let project: TestProject;

test.before('a project has no provider', async () => {
  const { client } = platform();
  project = await client.createProject(await client.signUp());
});

const good = saying('hi');
const post = (path: string, body: unknown): Promise<Answer> =>
  platform().client.call('POST', path, { key: project.key, body });

const noNumber = ['1', null, true, [], {}, -0.1];
const badNames = [undefined, null, 1, '', ' ', 'a b', 'a\nb', 'a\0', 'x'.repeat(201), ['gpt-4o']];
const user = { role: 'user', content: 'hi' };
const assistant = { role: 'assistant' };
const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } };

const badMessages: readonly unknown[] = [
  {},
  null,
  'hi',
  { content: 'hi' },
  { role: 'robot', content: 'hi' },
  { role: 'user' },
  { role: 'user', content: null },
  { role: 'user', content: 1 },
  { role: 'user', content: [] },
  { role: 'user', content: ['hi'] },
  { role: 'user', content: [{ type: 'text' }] },
  { role: 'user', content: [{ type: 'image_url', image_url: 'data:' }] },
  { role: 'user', content: [{ type: 'image_url', image_url: { url: '' } }] },
  assistant,
  { ...assistant, content: null },
  { ...assistant, tool_calls: [] },
  { ...assistant, tool_calls: [{ ...call, id: '' }] },
  { ...assistant, tool_calls: [{ ...call, type: 'custom' }] },
  { ...assistant, tool_calls: [{ ...call, function: { name: 'f' } }] },
  { ...assistant, tool_calls: [{ ...call, function: { name: 'f', arguments: {} } }] },
  { role: 'tool', content: 'noon' },
  { role: 'tool', tool_call_id: 'c' },
];

/** Only OpenAI's surface takes these. */
const foreign: readonly unknown[] = [
  { role: 'function', content: 'hi', name: 'f' },
  { role: 'user', content: [{ type: 'input_audio', input_audio: {} }] },
  { ...assistant, function_call: { name: 'f', arguments: '{}' } },
];

const fn = (fields: object) => [{ type: 'function', function: fields }];

/** Values that no field accepts, on plinth's own surface; those of `nullable` may be null for OpenAI's clients. */
const bad: Readonly<Record<string, readonly unknown[]>> = {
  model: badNames,
  messages: [undefined, null, 'hi', {}, [], Array.from({ length: 1001 }, () => user)],
  temperature: [...noNumber, 2.01],
  max_tokens: [...noNumber, 0, 1.5, 1e300, 10_000_001],
  top_p: [...noNumber, 1.01],
  stop: [null, 1, '', [], [1], [''], Array.from({ length: 17 }, () => 'x')],
  tools: [null, {}, [], [{}], [{ type: 'custom' }], fn({}), fn({ name: 'a b' }), fn({ name: 'a', parameters: 'x' })],
  tool_choice: [null, 'always', 1, {}, { type: 'function' }, { type: 'function', function: {} }],
  response_format: [
    null,
    'json',
    {},
    { type: 'xml' },
    { type: 'json_schema' },
    { type: 'json_schema', json_schema: {} },
  ],
};

for (const path of ['/api/ai/chat', '/api/ai/chat/stream']) {
  test(`${path} refuses each field that is wrong, and names it`, async (t) => {
    const attempt = { path, good, client: platform().client, headers: { apikey: project.key } };
    await expectShapeRefused(t, attempt);
    for (const [field, values] of Object.entries(bad)) {
      for (const value of values) {
        const answer = await post(path, { ...good, [field]: value });
        isError(t, answer, 400, 'validation_failed');
        const what = `${field}: ${JSON.stringify(value)?.slice(0, 80)} → ${answer.text.slice(0, 300)}`;
        t.true(answer.body.details[0].path.startsWith(field), what);
        t.notRegex(answer.body.details[0].message, /^Invalid input$/, what);
      }
    }
    for (const message of [...badMessages, ...foreign]) {
      const answer = await post(path, { ...good, messages: [user, message] });
      isError(t, answer, 400, 'validation_failed');
      t.regex(answer.body.details[0].path, /^messages\.1/, answer.text);
    }
  });
}

test('OpenAI’s surface refuses what is wrong in OpenAI’s form, and names it', async (t) => {
  const expectRefused = async (body: unknown, param: RegExp): Promise<void> => {
    const answer = await post('/v1/chat/completions', body);
    const what = `${JSON.stringify(body).slice(0, 120)} → ${answer.text.slice(0, 300)}`;
    t.is(answer.status, 400, what);
    t.deepEqual(Object.keys(answer.body), ['error']);
    const { message, type, code, param: named } = answer.body.error;
    t.deepEqual({ type, code }, { type: 'invalid_request_error', code: 'validation_failed' });
    t.regex(named, param, what);
    t.true(message.includes(named), what);
  };
  for (const [field, values] of Object.entries(bad)) {
    const nullable = field !== 'model' && field !== 'messages';
    for (const value of values) {
      if (value === null && nullable) continue;
      await expectRefused({ ...good, [field]: value }, new RegExp(`^${field}`));
    }
  }
  for (const message of badMessages) await expectRefused({ ...good, messages: [user, message] }, /^messages\[1\]/);
  for (const message of [
    { role: 'function', content: 'hi' },
    { role: 'user', content: [{ type: '' }] },
    { ...assistant, function_call: { name: 'f' } },
  ])
    await expectRefused({ ...good, messages: [user, message] }, /^messages\[1\]/);
  for (const stream of ['true', 1, {}]) await expectRefused({ ...good, stream }, /^stream$/);
  await expectRefused({ ...good, stream: true, stream_options: { include_usage: 'yes' } }, /^stream_options/);
});

test('embeddings refuse what is wrong, 2,049 texts included', async (t) => {
  const input = [undefined, null, 1, '', [], Array.from({ length: 2049 }, () => 'x')];
  const dimensions = ['8', 0, -1, 1.5];
  const fields = { model: 'openai/text-embedding-3-small', input: 'a' };
  const { client } = platform();
  const owner = await client.signUp();
  const { id } = await client.createProject(owner);
  const headers = { authorization: `Bearer ${owner.token}` };
  const attempt = { client, path: `/projects/${id}/ai/embeddings`, good: fields, headers };
  await expectShapeRefused(t, attempt);
  await expectFieldRefused(t, attempt, 'input', [...input, [1, 2], [[1, 2]]]);
  await expectFieldRefused(t, attempt, 'dimensions', dimensions);
  for (const body of [
    { ...fields, input: ['a', ''] },
    { ...fields, input: ['a', null] },
    ...[[-1], [0.5], [[]], [[1], 'a'], [1, 'a'], [[1], []]].map((value) => ({ ...fields, input: value })),
    ...input.map((value) => ({ ...fields, input: value })),
    ...dimensions.map((value) => ({ ...fields, dimensions: value })),
    { ...fields, encoding_format: 'hex' },
  ]) {
    const answer = await post('/v1/embeddings', body);
    t.is(answer.status, 400, answer.text);
    t.is(answer.body.error.code, 'validation_failed');
  }
});

test('what is no JSON object is refused in each surface’s form', async (t) => {
  const { client } = platform();
  for (const raw of ['', '{', '[]', 'null', '"hi"', '{"model":NaN}', Buffer.from([0x7b, 0xff, 0x7d])]) {
    const own = await client.call('POST', '/api/ai/chat', { key: project.key, raw });
    t.is(own.status, 400);
    t.is(typeof own.body.code, 'string');
    const theirs = await client.call('POST', '/v1/chat/completions', { key: project.key, raw });
    t.is(theirs.status, 400);
    t.is(theirs.body.error.type, 'invalid_request_error', theirs.text);
  }
});

test('__proto__ in a request is a field like any other', async (t) => {
  const raw = `{"__proto__":{"temperature":9},"model":"openai/gpt-4o","messages":[{"role":"user","content":"hi"}]}`;
  const answer = await platform().client.call('POST', '/v1/chat/completions', { key: project.key, raw });
  t.is(answer.body.error.code, 'provider_not_configured');
});

test('a body over 10 MB is 413 in each surface’s form, naming the setting', async (t) => {
  const raw = Buffer.alloc(10 * 1024 * 1024 + 1, 0x20);
  const { client } = platform();
  const own = await client.call('POST', '/api/ai/chat', { key: project.key, raw });
  isError(t, own, 413, 'payload_too_large');
  t.regex(own.body.hint, /PLINTH_BODY_LIMIT_AI/);
  const theirs = await client.call('POST', '/v1/chat/completions', { key: project.key, raw });
  t.is(theirs.status, 413);
  t.deepEqual(
    { ...theirs.body.error, message: '' },
    { message: '', type: 'invalid_request_error', code: 'payload_too_large', param: null },
  );
  t.regex(theirs.body.error.message, /PLINTH_BODY_LIMIT_AI/);
});

test('a body of 9 MB is read', async (t) => {
  const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(9 * 1024 * 1024)}` } };
  const answer = await post('/api/ai/chat', { ...good, messages: [{ role: 'user', content: [image] }] });
  isError(t, answer, 409, 'provider_not_configured');
});

test('a stream that fails at once is a plain HTTP error', async (t) => {
  isError(t, await post('/api/ai/chat/stream', good), 409, 'provider_not_configured');
});

test('over the rate limit each surface says so in its form, with Retry-After', async (t) => {
  const { client } = limited();
  const { key } = await client.createProject(await client.signUp());
  const ask = (path: string): Promise<Answer> => client.call('POST', path, { key, body: {} });
  // Windows end by the clock: of more than two limits' worth some are refused in any case.
  const answers = [];
  for (let at = 0; at < 6; at += 1) answers.push(await ask(at % 2 === 0 ? '/api/ai/chat' : '/v1/chat/completions'));
  const refused = answers.filter(({ status }) => status === 429);
  t.true(refused.length > 0);
  for (const { headers, body } of refused) {
    t.regex(headers.get('retry-after') ?? '', /^\d+$/);
    t.is(headers.get('ratelimit-policy'), '"ai-free";q=2;w=60');
    if (body.error === undefined) t.is(body.code, 'rate_limited');
    else
      t.deepEqual(
        { ...body.error, message: '' },
        { message: '', type: 'rate_limit_error', code: 'rate_limited', param: null },
      );
  }
});
