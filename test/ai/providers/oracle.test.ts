import test from 'ava';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createGoogleGenerativeAI } from '@ai-sdk/google';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { type FixtureOpts, type FixtureResponse, LLMock } from '@copilotkit/aimock';
import { type LanguageModel, type ToolSet, generateText, jsonSchema, streamText } from 'ai';
import type { ProviderName } from '#domain/ai/providers/providers.ts';
import { chatWith, peerFor, saying, streamWith } from '#test/support/ai-talk.ts';

/** One figure under the name that each dialect has for it. */
const usage = (prompt: number, completion: number) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  input_tokens: prompt,
  output_tokens: completion,
  promptTokenCount: prompt,
  candidatesTokenCount: completion,
});

const weather = { name: 'get_weather', arguments: '{"city":"Zürich","days":[1,2],"unit":"°C"}' };

const fixtures: readonly (readonly [string, FixtureResponse, FixtureOpts?])[] = [
  ['plain', { content: 'The gateway carries this sentence in several pieces.', usage: usage(13, 9) }, { chunkSize: 7 }],
  ['wide', { content: 'Grüße, 世界! 👩‍👩‍👧 – “quoted”\n\n\tand\\escaped', usage: usage(5, 21) }, { chunkSize: 3 }],
  ['long', { content: 'word '.repeat(2000), usage: usage(2, 2000) }, { chunkSize: 50 }],
  ['shortened', { content: 'It ends before the', finishReason: 'length', usage: usage(9, 4) }, { chunkSize: 4 }],
  ['tool', { toolCalls: [weather], usage: usage(40, 12) }, { chunkSize: 5 }],
  [
    'several tools',
    { toolCalls: [weather, { name: 'get_time', arguments: '{"zone":"CET"}' }], usage: usage(41, 30) },
    { chunkSize: 6 },
  ],
  ['both', { content: 'I look it up.', toolCalls: [weather], usage: usage(17, 18) }, { chunkSize: 4 }],
  ['thinking', { content: 'Forty-two.', reasoning: 'It is said to be so.', usage: usage(6, 8) }, { chunkSize: 4 }],
];

const mock = new LLMock({ port: 0, strict: true });

test.before(async () => {
  for (const [name, response, options] of fixtures) {
    mock.onMessage(`fixture: ${name}.`, response, options);
    // Gemini says STOP beside function calls; the mock would say FUNCTION_CALL, which the API does not have.
    mock.onMessage(`Gemini ${name}.`, { finishReason: 'stop', ...response }, options);
  }
  await mock.start();
});
test.after.always(() => mock.stop());

interface Side {
  readonly provider: ProviderName;
  readonly baseUrl: () => string;
  readonly oracle: () => LanguageModel;
}

const model = 'claude-sonnet-4-5';
const apiKey = 'sk-test-key-1234';

const sides: Readonly<Record<string, Side>> = {
  OpenAI: {
    provider: 'openai',
    baseUrl: () => `${mock.url}/v1`,
    oracle: () => createOpenAI({ baseURL: `${mock.url}/v1`, apiKey }).chat(model),
  },
  'an OpenAI-compatible server': {
    provider: 'groq',
    baseUrl: () => `${mock.url}/v1`,
    oracle: () =>
      createOpenAICompatible({ name: 'groq', baseURL: `${mock.url}/v1`, apiKey, includeUsage: true })(model),
  },
  Anthropic: {
    provider: 'anthropic',
    baseUrl: () => mock.url,
    oracle: () => createAnthropic({ baseURL: `${mock.url}/v1`, apiKey })(model),
  },
  Google: {
    provider: 'google',
    baseUrl: () => mock.url,
    oracle: () => createGoogleGenerativeAI({ baseURL: `${mock.url}/v1beta`, apiKey })(model),
  },
};

const anything = { inputSchema: jsonSchema({ type: 'object', properties: {} }) };
const tools: ToolSet = { get_weather: anything, get_time: anything };

/** The statements of both sides about an answer, in one form. */
const inOneForm = (answer: {
  readonly text: string;
  readonly toolCalls: readonly { readonly name: string; readonly input: unknown }[];
  readonly finish: string | null;
  readonly prompt: number | undefined;
  readonly completion: number | undefined;
}) => answer;

type OracleAnswer = Pick<Awaited<ReturnType<typeof generateText>>, 'text' | 'finishReason' | 'toolCalls' | 'usage'>;

const fromOracle = ({ text, finishReason, toolCalls, usage }: OracleAnswer) =>
  inOneForm({
    text,
    toolCalls: toolCalls.map(({ toolName, input }) => ({ name: toolName, input })),
    finish: finishReason.replace('-', '_'),
    prompt: usage.inputTokens,
    completion: usage.outputTokens,
  });

const ours = (answer: {
  readonly text: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
  readonly finish: string | null;
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number } | null;
}) =>
  inOneForm({
    text: answer.text,
    toolCalls: answer.calls.map((call) => ({ name: call.name, input: JSON.parse(call.arguments) as unknown })),
    finish: answer.finish,
    prompt: answer.usage?.prompt_tokens,
    completion: answer.usage?.completion_tokens,
  });

for (const [label, side] of Object.entries(sides)) {
  for (const [name] of fixtures) {
    const prompt = side.provider === 'google' ? `Gemini ${name}.` : `fixture: ${name}.`;

    test(`${label}, "${name}": an answer reads as the ai package reads it`, async (t) => {
      const oracle = await generateText({ model: side.oracle(), prompt, tools, maxRetries: 0 });
      const peer = peerFor(t, side.provider, side.baseUrl());
      const answer = await chatWith(peer, saying(prompt, { model }));
      const calls = answer.toolCalls.map((call) => call.function);
      t.deepEqual(
        ours({ text: answer.content, calls, finish: answer.finish, usage: answer.usage }),
        fromOracle(oracle),
      );
    });

    test(`${label}, "${name}": a stream reads as the ai package reads it`, async (t) => {
      const stream = streamText({ model: side.oracle(), prompt, tools, maxRetries: 0 });
      const oracle = {
        text: await stream.text,
        finishReason: await stream.finishReason,
        toolCalls: await stream.toolCalls,
        usage: await stream.usage,
      };
      const peer = peerFor(t, side.provider, side.baseUrl());
      const received = await streamWith(peer, saying(prompt, { model }));
      t.deepEqual(ours({ ...received, calls: received.toolCalls }), fromOracle(oracle));
      t.true(received.complete);
    });
  }
}
