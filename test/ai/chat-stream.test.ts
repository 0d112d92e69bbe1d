import test from 'ava';
import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Readable } from 'node:stream';
import { openAiStream } from '#api/ai/openai-form.ts';
import { ownStream } from '#api/ai/own-form.ts';
import { type StreamForm, chatEvents } from '#api/ai/stream.ts';
import type { ChatStream, StreamEnd, TimedPiece } from '#domain/ai/gateway/types.ts';
import type { ProviderName } from '#domain/ai/providers/providers.ts';
import { ServiceError } from '#lib/errors.ts';
import { memoryLog } from '#test/support/platform.ts';

const piece = (text: string, more: Partial<TimedPiece> = {}): TimedPiece => ({
  text,
  toolCalls: [],
  raw: null,
  elapsedMs: 12.4,
  ...more,
});

type Step = readonly TimedPiece[] | Error | Promise<readonly TimedPiece[]>;

interface Played {
  readonly stream: ChatStream;
  /** Steps that were asked for. */
  readonly requested: () => number;
  readonly left: () => boolean;
}

const play = (steps: readonly Step[], provider: ProviderName = 'openai'): Played => {
  let [requested, left] = [0, false];
  const end: StreamEnd = {
    provider,
    model: 'the-model',
    finish: 'stop',
    usage: { prompt_tokens: 3, completion_tokens: 4 },
    tokensSource: 'reported',
    ttftMs: 5.6,
    latencyMs: 99,
  };
  const iterator: AsyncIterator<readonly TimedPiece[]> = {
    next: async () => {
      const step = steps[requested];
      requested += 1;
      if (step instanceof Error) throw step;
      return step === undefined ? { done: true, value: undefined } : { done: false, value: await step };
    },
    return: () => {
      left = true;
      return Promise.resolve({ done: true, value: undefined });
    },
  };
  const pieces = { [Symbol.asyncIterator]: () => iterator };
  return {
    stream: { provider, model: 'the-model', pieces, end: () => end },
    requested: () => requested,
    left: () => left,
  };
};

const { log } = memoryLog();

const bodyOf = ({ stream }: Played, form: StreamForm = ownStream, keepAliveMs?: number): Readable =>
  chatEvents(stream, form, { log, ...(keepAliveMs !== undefined && { keepAliveMs }) });

const textOf = async (body: Readable): Promise<string> => {
  let text = '';
  for await (const chunk of body) text += String(chunk);
  return text;
};

const never = new Promise<readonly TimedPiece[]>(() => undefined);

test('pieces and the end are data lines of JSON', async (t) => {
  const body = bodyOf(play([[piece('a "quoted"\nline')], [piece('b'), piece('ü\u2028😀')]]));
  t.is(
    await textOf(body),
    'data: {"chunk":"a \\"quoted\\"\\nline","elapsed_ms":12}\n\n' +
      'data: {"chunk":"b","elapsed_ms":12}\n\ndata: {"chunk":"ü\u2028😀","elapsed_ms":12}\n\n' +
      'data: {"done":true,"ttft_ms":6,"total_tokens":7,"usage":{"prompt_tokens":3,"completion_tokens":4},' +
      '"model":"the-model","provider":"openai","finish_reason":"stop"}\n\n',
  );
});

test('what came at once is one chunk, and what says nothing is none', async (t) => {
  const chunks: string[] = [];
  const body = bodyOf(play([[piece('')], [piece('a'), piece(''), piece('b')], [piece('')]]));
  for await (const chunk of body) chunks.push(String(chunk));
  t.is(chunks.length, 2);
  t.is(chunks[0]?.match(/data: /g)?.length, 2);
  t.regex(chunks[1] ?? '', /"done":true/);
});

test('parts of tool calls go out with an empty chunk of text', async (t) => {
  const toolCalls = [{ index: 0, id: 'call_1', name: 'now', arguments: '' }];
  const [first = ''] = (await textOf(bodyOf(play([[piece('', { toolCalls })]])))).split('\n\n');
  t.deepEqual(JSON.parse(first.slice(6)), { chunk: '', tool_calls: toolCalls, elapsed_ms: 12 });
});

test('a stream that breaks ends with its error, and never as done well', async (t) => {
  const broken = new ServiceError('provider_unavailable', 'OpenAI broke off.');
  t.is(
    await textOf(bodyOf(play([[piece('a')], broken, [piece('b')]]))),
    'data: {"chunk":"a","elapsed_ms":12}\n\n' +
      'data: {"error":{"code":"provider_unavailable","message":"OpenAI broke off."},"done":true}\n\n',
  );
});

test('a fault of ours in the middle of a stream shows nothing of itself and is logged', async (t) => {
  const { log: own, text } = memoryLog();
  const { stream } = play([[piece('a')], new Error('secret of the house')]);
  const written = await textOf(chatEvents(stream, ownStream, { log: own }));
  t.regex(written, /"code":"internal"/);
  t.notRegex(written, /secret of the house/);
  t.regex(text(), /secret of the house/);
});

test('who does not read is not read for: one step waits, and no keep-alive piles up', async (t) => {
  const played = play(Array.from({ length: 50 }, () => [piece('x')]));
  const body = bodyOf(played, ownStream, 1);
  body.read(0);
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();
  t.is(played.requested(), 1);
  t.is(body.readableLength, 'data: {"chunk":"x","elapsed_ms":12}\n\n'.length);
  body.destroy();
});

test('a quiet stream is kept alive', async (t) => {
  const body = bodyOf(play([[piece('a')], never]), ownStream, 5);
  let text = '';
  for await (const chunk of body) {
    text += String(chunk);
    if (text.endsWith(': keep-alive\n\n: keep-alive\n\n')) break;
  }
  t.true(text.startsWith('data: {"chunk":"a"'));
});

test('after a keep-alive the stream goes on where it was', async (t) => {
  const { promise, resolve } = Promise.withResolvers<readonly TimedPiece[]>();
  const played = play([promise]);
  const body = bodyOf(played, ownStream, 5);
  body.once('data', () => resolve([piece('late')]));
  const text = await textOf(body);
  t.regex(text, /^(: keep-alive\n\n)+data: {"chunk":"late"/);
  t.is(played.requested(), 2);
});

test('a reader who leaves ends the stream', async (t) => {
  const played = play([[piece('a')], never]);
  const body = bodyOf(played);
  await once(body, 'data');
  body.destroy();
  t.true(played.left());
});

test('a stream that ended is not left again', async (t) => {
  const played = play([[piece('a')]]);
  await textOf(bodyOf(played));
  t.false(played.left());
});

const passed = (raw: string, text = ''): TimedPiece => piece(text, { raw });
const usageChunk = '{"id":"1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}';

test('chunks of a provider that speaks OpenAI’s dialect pass as they came', async (t) => {
  const raws = [
    '{"choices":[{"delta":{"content":"a"},"x":1.0}],"usage":null}',
    '{"choices":[{"delta":{}}],"usage":null}',
  ];
  const { stream } = play([[passed(raws[0] ?? '', 'a')], [passed(raws[1] ?? '')], [passed(usageChunk)]]);
  const lines = [...raws, '[DONE]'].map((raw) => `data: ${raw}\n\n`).join('');
  t.is(await textOf(chatEvents(stream, openAiStream(stream, false), { log })), lines);
});

test('the chunk of usage goes to those who asked for it, once', async (t) => {
  const { stream } = play([[passed(usageChunk)]]);
  const written = await textOf(chatEvents(stream, openAiStream(stream, true), { log }));
  t.is(written, `data: ${usageChunk}\n\ndata: [DONE]\n\n`);
});

test('usage beside the last choice is told already', async (t) => {
  const raw = '{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}';
  const { stream } = play([[passed(raw)]]);
  const written = await textOf(chatEvents(stream, openAiStream(stream, true), { log }));
  t.is(written, `data: ${raw}\n\ndata: [DONE]\n\n`);
});

test('who asked for usage gets it also from a server that tells none', async (t) => {
  const { stream } = play([[passed('{"choices":[{"delta":{},"finish_reason":"stop"}]}')]]);
  const events = (await textOf(chatEvents(stream, openAiStream(stream, true), { log }))).split('\n\n');
  const { choices, usage } = JSON.parse(events[1]?.slice(6) ?? '') as Record<string, unknown>;
  t.deepEqual({ choices, usage }, { choices: [], usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 } });
});

test('an event of several lines passes as several lines of data', async (t) => {
  const { stream } = play([[passed('{"choices":\n[]}')]]);
  const written = await textOf(chatEvents(stream, openAiStream(stream, false), { log }));
  t.is(written, 'data: {"choices":\ndata: []}\n\ndata: [DONE]\n\n');
});

test('chunks of other dialects are made, with one id, one role and a reason to finish', async (t) => {
  const toolCalls = [{ index: 0, id: 'toolu_1', name: 'now', arguments: '{}' }];
  const { stream } = play([[piece('a'), piece('b')], [piece('', { toolCalls })]], 'anthropic');
  const events = (await textOf(chatEvents(stream, openAiStream(stream, false), { log }))).split('\n\n').slice(0, -1);
  t.is(events.pop(), 'data: [DONE]');
  const chunks = events.map((event) => JSON.parse(event.slice(6)) as { id: string; choices: unknown[] });
  t.is(new Set(chunks.map(({ id }) => id)).size, 1);
  t.deepEqual(
    chunks.map(({ choices }) => choices[0]),
    [
      { index: 0, delta: { role: 'assistant', content: 'a' }, logprobs: null, finish_reason: null },
      { index: 0, delta: { content: 'b' }, logprobs: null, finish_reason: null },
      {
        index: 0,
        delta: {
          content: null,
          tool_calls: [{ index: 0, id: 'toolu_1', type: 'function', function: { name: 'now', arguments: '{}' } }],
        },
        logprobs: null,
        finish_reason: null,
      },
      { index: 0, delta: {}, logprobs: null, finish_reason: 'stop' },
    ],
  );
});

test('a broken stream tells OpenAI’s clients so, without the end marker', async (t) => {
  const { stream } = play([new ServiceError('provider_timeout', 'Nothing came for 60 s.')], 'google');
  const written = await textOf(chatEvents(stream, openAiStream(stream, true), { log }));
  t.is(
    written,
    'data: {"error":{"message":"Nothing came for 60 s.","type":"server_error","code":"provider_timeout","param":null}}\n\n',
  );
});
