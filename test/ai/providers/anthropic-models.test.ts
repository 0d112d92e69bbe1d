import test from 'ava';
import type { ChatRequest } from '#domain/ai/chat.ts';
import { acceptedSchema, maxOutputTokensOf, takesSampling, takesSchema } from '#domain/ai/providers/anthropic.ts';
import { dialectOf } from '#domain/ai/providers/providers.ts';
import { saying } from '#test/support/ai-talk.ts';

const schema = { type: 'object', properties: { sql: { type: 'string' } }, required: ['sql'] };
const inJson = { response_format: { type: 'json_schema', json_schema: { name: 'a', schema } } } as const;
const target = { baseUrl: 'https://p.example', apiKey: 'sk-test-key-1234', isVendor: true };
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into bodies of every shape
const chatBody = (request: ChatRequest): any =>
  JSON.parse(dialectOf('anthropic').chat(target, request, false).body ?? 'null');

test("Anthropic's models differ in what they take", (t) => {
  t.deepEqual(
    ['claude-3-haiku-20240307', 'claude-opus-4-1', 'claude-sonnet-5', 'llama'].map(maxOutputTokensOf),
    [4096, 32_000, 32_000, 4096],
  );
  const models = [
    'claude-3-5-sonnet-latest',
    'claude-opus-4-20250514',
    'claude-sonnet-4-5',
    'claude-opus-4-7',
    'claude-x-9',
  ];
  t.deepEqual(models.map(takesSampling), [true, true, true, false, false]);
  t.deepEqual(models.map(takesSchema), [false, false, true, true, true]);
  const old = chatBody(saying('hi', { ...inJson, model: 'claude-3-haiku-20240307' }));
  t.regex(old.system, /JSON Schema.*"sql"/);
  t.is(chatBody(saying('hi', { model: 'claude-opus-4-7', temperature: 0 })).temperature, undefined);
  t.regex(chatBody(saying('hi', { response_format: { type: 'json_object' } })).system, /JSON object/);
});

test('a schema goes to Anthropic without what it refuses; names of properties stay', (t) => {
  const given = {
    type: 'object',
    properties: {
      minimum: { type: 'integer', minimum: 1 },
      list: { type: 'array', items: { type: 'object' }, maxItems: 3 },
    },
    enum: [{ minimum: 1 }],
  };
  t.deepEqual(acceptedSchema(given), {
    type: 'object',
    properties: {
      minimum: { type: 'integer' },
      list: { type: 'array', items: { type: 'object', additionalProperties: false } },
    },
    enum: [{ minimum: 1 }],
    additionalProperties: false,
  });
});
