import test from 'ava';
import { type SentEvent, type StreamReader, ProviderFault } from '#domain/ai/providers/dialect.ts';
import { dialectOf } from '#domain/ai/providers/providers.ts';
import { chatWith, peerFor, saying } from '#test/support/ai-talk.ts';
import { aiUpstreamFor } from '#test/support/ai-upstream.ts';
import { listedModels } from '#test/support/ai-upstream-lists.ts';

const dialects = ['openai', 'anthropic', 'google'] as const;
const sent = (value: unknown, event = ''): SentEvent => ({
  event,
  data: typeof value === 'string' ? value : JSON.stringify(value),
});

const feed = (reader: StreamReader, ...values: readonly unknown[]): StreamReader => {
  for (const value of values) reader.take(sent(value));
  return reader;
};

for (const dialect of dialects) {
  test(`${dialect}: an answer holds text, tool calls, the reason why it ended and its usage`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const peer = peerFor(t, dialect, upstream[dialect]);
    const plain = await chatWith(peer, saying('grüße'));
    t.like(plain, { content: 'You said: grüße', finish: 'stop', toolCalls: [], model: 'some-model' });
    t.deepEqual(plain.usage, { prompt_tokens: 11, completion_tokens: 4 });
    t.is(plain.raw === null, dialect !== 'openai');
    const tools = await chatWith(peer, saying('TOOLS'));
    t.is(tools.finish, 'tool_calls');
    t.deepEqual(
      tools.toolCalls.map((call) => call.function.name),
      ['get_weather', 'get_time'],
    );
    t.is(new Set(tools.toolCalls.map((call) => call.id)).size, 2);
    t.deepEqual(JSON.parse(tools.toolCalls[0]?.function.arguments ?? ''), { city: 'Zürich', days: 2 });
    t.is((await chatWith(peer, saying('NOUSAGE'))).usage, null);
    t.is((await chatWith(peer, saying('LENGTH'))).finish, 'length');
    t.is((await chatWith(peer, saying('FILTERED'))).finish, 'content_filter');
  });

  test(`${dialect}: what is no answer is a bad answer or a fault, never another error`, (t) => {
    const { readChat } = dialectOf(dialect);
    const bodies = ['', 'x', 'null', '5', '[]', '"a"', '{}', '{"choices":[]}', '{"choices":[null]}', '{"content":5}'];
    for (const body of [
      ...bodies,
      '{"candidates":5}',
      '{"candidates":[]}',
      '{"type":"error"}',
      '{"error":{"code":7}}',
    ]) {
      const error = t.throws(() => readChat(body), { instanceOf: ProviderFault }, body);
      t.true(error === undefined || ['bad_answer', 'unavailable'].includes(error.kind), body);
    }
  });

  test(`${dialect}: fields of wrong types do no harm to a stream`, (t) => {
    const odd: readonly unknown[] = [null, 0, -1, 1e99, '', 'x', true, [], [null], {}, { index: 1e15 }];
    const names = [
      'choices',
      'delta',
      'content',
      'tool_calls',
      'function',
      'usage',
      'message',
      'content_block',
      'index',
    ];
    const googles = ['candidates', 'parts', 'functionCall', 'usageMetadata', 'promptFeedback', 'finishReason', 'text'];
    const types = [
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
    ];
    // Every name around every value, three levels deep, under every type of event.
    let values: readonly unknown[] = odd;
    for (let depth = 0; depth < 3; depth += 1) {
      values = [...names, ...googles].flatMap((name, at) => [
        { [name]: values[at % values.length], type: types[at % types.length] },
        { [name]: [values[(at * 7) % values.length]], type: types[(at + depth) % types.length] },
      ]);
      for (const value of [...values, ...odd]) {
        try {
          feed(dialectOf(dialect).openStream(), value, value);
        } catch (error) {
          t.true(error instanceof ProviderFault, `${JSON.stringify(value)}: ${String(error)}`);
        }
      }
    }
    t.pass();
  });

  test(`${dialect}: models are listed, page by page`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const { target, transport, signal } = peerFor(t, dialect, upstream[dialect]);
    const { models, readModels } = dialectOf(dialect);
    const ids: string[] = [];
    let next: string | null = null;
    do {
      const { bytes } = await transport.send(models(target, next), { signal });
      const page = readModels(bytes.toString());
      ids.push(...page.models.map(({ id }) => id));
      ({ next } = page);
    } while (next !== null);
    const { chat, embedding } = listedModels[dialect];
    t.deepEqual(ids, [...chat, ...embedding]);
    t.throws(() => readModels('{"data":{},"models":7}'), { instanceOf: ProviderFault });
  });
}

const ending = (index: number, finish: string | null) => ({ choices: [{ index, delta: {}, finish_reason: finish }] });

test('an OpenAI stream is whole with [DONE], or when each of its choices has ended', (t) => {
  const { openStream } = dialectOf('openai');
  t.true(feed(openStream(), '[DONE]').complete);
  t.true(feed(openStream(), '[DONE]').ended);
  t.true(feed(openStream(), ending(0, 'stop')).complete);
  t.false(feed(openStream(), ending(0, 'stop')).ended);
  t.false(feed(openStream(), ending(0, null)).complete);
  t.false(feed(openStream(), ending(1, null), ending(0, 'stop')).complete);
  t.false(feed(openStream({ isVendor: true }), ending(0, 'stop')).complete, 'the vendors send their marker');
  t.true(feed(openStream({ isVendor: true }), ending(0, 'stop'), '[DONE]').complete);
  const both = feed(openStream(), ending(1, 'length'), ending(0, 'stop'));
  t.true(both.complete);
  t.is(both.finish, 'stop');
});

const usageOf = (prompt: number, completion: number, total?: number) => ({
  usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total },
});

test('usage is found wherever OpenAI-compatible servers tell it, and the last one counts', (t) => {
  const { openStream, readChat } = dialectOf('xai');
  t.deepEqual(feed(openStream(), usageOf(3, 1), usageOf(3, 2), { usage: null }).usage, {
    prompt_tokens: 3,
    completion_tokens: 2,
  });
  t.is(feed(openStream(), { x_groq: usageOf(3, 4) }).usage?.completion_tokens, 4);
  const thinking = { choices: [{ message: { content: 'a' } }], ...usageOf(10, 5, 40) };
  t.is(readChat(JSON.stringify(thinking)).usage?.completion_tokens, 30);
  for (const bad of [{ prompt_tokens: '3' }, { prompt_tokens: -1 }, { prompt_tokens: 1.5 }, 7, []]) {
    t.is(feed(openStream(), { usage: bad }).usage, null);
  }
});

const choice = (index: number, content: string) => ({ index, message: { content, reasoning_content: 'hm' } });

test('with several choices the text is that of the first; reasoning is no text', (t) => {
  const { openStream, readChat } = dialectOf('deepseek');
  t.is(readChat(JSON.stringify({ choices: [choice(1, 'b'), choice(0, 'a')] })).content, 'a');
  const reader = openStream();
  const piece = reader.take(
    sent({
      choices: [
        { index: 1, delta: { content: 'b' } },
        { index: 0, delta: { content: 'a', reasoning_content: 'hm' } },
      ],
    }),
  );
  t.is(piece?.text, 'a');
});

test("Anthropic's usage holds what was read from and written to the cache, and thoughts are no text", (t) => {
  const reader = feed(
    dialectOf('anthropic').openStream(),
    {
      type: 'message_start',
      message: {
        model: 'claude-x',
        usage: { input_tokens: 5, cache_read_input_tokens: 20, cache_creation_input_tokens: 300, output_tokens: 1 },
      },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
    { type: 'something_new' },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 70 } },
  );
  t.is(
    reader.take(sent({ type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'hm' } })),
    null,
  );
  const cache = { cached_tokens: 20, cache_write_tokens: 300 };
  t.deepEqual(reader.usage, { prompt_tokens: 325, completion_tokens: 70, ...cache });
  t.is(reader.model, 'claude-x');
  t.false(reader.complete);
});

test("Google's thoughts are paid and not shown, and a refused prompt is a filtered answer", (t) => {
  const { readChat, openStream } = dialectOf('google');
  const answer = readChat(
    JSON.stringify({
      candidates: [{ content: { parts: [{ text: 'hm', thought: true }, { text: 'a' }] }, finishReason: 'STOP' }],
      usageMetadata: {
        promptTokenCount: 1,
        candidatesTokenCount: 2,
        thoughtsTokenCount: 30,
        toolUsePromptTokenCount: 4,
      },
    }),
  );
  t.like(answer, { content: 'a', usage: { prompt_tokens: 5, completion_tokens: 32 } });
  const refused = { promptFeedback: { blockReason: 'SAFETY' }, usageMetadata: { promptTokenCount: 8 } };
  t.like(readChat(JSON.stringify(refused)), { content: '', finish: 'content_filter' });
  t.true(feed(openStream(), refused).complete);
});
