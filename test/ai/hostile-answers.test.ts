import { gzipSync } from 'node:zlib';
import type { RequestListener } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { chatRequest, refused } from './gateway-alone.ts';
import { hostile, json, textOf } from './hostile-scene.ts';

const events = (...data: readonly string[]): RequestListener => {
  return (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const one of data) response.write(`data: ${one}\n\n`);
    response.end();
  };
};

const message = (content: string, more = ''): string =>
  `{"model":"m","choices":[{"index":0,"message":{"content":${JSON.stringify(content)}${more}},"finish_reason":"stop"}]}`;

const models = { openai: 'openai/m', anthropic: 'anthropic/m', google: 'google/m' } as const;

const readAll = async (pieces: AsyncIterable<readonly { readonly text: string }[]>): Promise<number> => {
  let length = 0;
  for await (const step of pieces) for (const { text } of step) length += text.length;
  return length;
};

test('an answer of four million characters is read, one beyond 4 MB is provider_bad_output', async (t) => {
  let length = 3_900_000;
  const { gateway, caller } = await hostile(t, (request, response) =>
    json(message('x'.repeat(length)))(request, response),
  );
  const { answer } = await gateway.chat(caller, chatRequest('hello'));
  t.is(answer.content.length, length);
  t.is(answer.raw?.length, message('x'.repeat(length)).length);
  length = 4_000_001;
  t.is((await refused(gateway.chat(caller, chatRequest('hello')))).code, 'provider_bad_output');
});

test('objects without end, nesting without end and no JSON at all are provider_bad_output in every dialect', async (t) => {
  const texts = [
    `{"z":[${textOf(3_900_000, '{},')}{}]}`,
    `{"z":[${textOf(3_900_000, '0,')}0]}`,
    `{"choices":${textOf(300_000, '[')}${textOf(300_000, ']')}}`,
    textOf(500_000, '{"a":'),
    `{"usage":{"prompt_tokens":NaN}}`,
  ];
  for (const text of texts) {
    const { gateway, caller } = await hostile(t, json(text));
    for (const model of Object.values(models)) {
      const error = await refused(gateway.chat(caller, chatRequest('hello', { model })));
      t.is(error.code, 'provider_bad_output', `${model} ${text.slice(0, 60)}`);
    }
  }
});

/** Processor time of this thread, in ms. */
const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

// Serial: other tests have work in this thread, too.
test.serial('giant answers are read off the event loop', async (t) => {
  const text = `{"z":[${textOf(3_900_000, '{},')}{}]}`;
  const { gateway, caller } = await hostile(t, json(text));
  const before = cpuMs();
  JSON.parse(text);
  const parseMs = cpuMs() - before;
  const answers = Array.from({ length: 3 }, () => refused(gateway.chat(caller, chatRequest('hello'))));
  let isDone = false;
  const done = Promise.all(answers).finally(() => (isDone = true));
  let maxMs = 0;
  for (let last = cpuMs(); !isDone; last = cpuMs()) {
    await nextTurn();
    maxMs = Math.max(maxMs, cpuMs() - last);
  }
  t.deepEqual(new Set((await done).map(({ code }) => code)), new Set(['provider_bad_output']));
  t.true(maxMs < parseMs, `one turn took ${maxMs} ms of processor time, JSON.parse ${parseMs} ms`);
});

test('what is nested deep in an answer is no fault of ours', async (t) => {
  const deep = `${textOf(100_000, '[')}${textOf(100_000, ']')}`;
  const texts = {
    openai: message('', `,"z":${deep}`),
    anthropic: `{"content":[{"type":"tool_use","input":${deep}}]}`,
    google: `{"candidates":[{"content":{"parts":[{"functionCall":{"args":${deep}}}]}}]}`,
  };
  for (const provider of ['openai', 'anthropic', 'google'] as const) {
    const { gateway, caller } = await hostile(t, json(texts[provider]));
    const reported = await gateway.chat(caller, chatRequest('hello', { model: models[provider] })).then(
      () => 'read',
      (error: unknown) => (error as { code?: unknown }).code,
    );
    t.true(reported === 'read' || reported === 'provider_bad_output', `${provider}: ${String(reported)}`);
  }
});

const calls = (count: number): string =>
  JSON.stringify(
    Array.from({ length: count }, (_, index) => ({ index, id: 'c', function: { name: 'f', arguments: '{}' } })),
  );

const choice = (index: number): string => `{"index":${index},"message":{"content":""},"delta":{"content":"x"}}`;

const choices = (count: number): string => Array.from({ length: count }, (_, index) => choice(index)).join(',');

test('more than 256 choices or tool calls are provider_bad_output, whole and streamed', async (t) => {
  const whole = [message('', `,"tool_calls":${calls(257)}`), `{"choices":[${choices(257)}]}`];
  for (const text of whole) {
    const { gateway, caller } = await hostile(t, json(text));
    t.is((await refused(gateway.chat(caller, chatRequest('hello')))).code, 'provider_bad_output');
  }
  const few = await hostile(t, json(message('', `,"tool_calls":${calls(256)}`)));
  t.is((await few.gateway.chat(few.caller, chatRequest('hello'))).answer.toolCalls.length, 256);
  const streamed = [
    `{"choices":[{"index":0,"delta":{"tool_calls":${calls(257)}}}]}`,
    `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1000000,"function":{"arguments":"x"}}]}}]}`,
    `{"choices":[${choices(257)}]}`,
    `{"choices":[{"index":9007199254740991,"delta":{"content":"x"}}]}`,
  ];
  for (const data of streamed) {
    const { gateway, caller } = await hostile(t, events(data));
    t.is((await refused(gateway.stream(caller, chatRequest('hello')))).code, 'provider_bad_output', data.slice(0, 80));
  }
});

const block = (index: number): string =>
  `{"type":"content_block_start","index":${index},"content_block":{"type":"tool_use"}}`;

test('a million tool calls of Anthropic or Google end the stream at the 257th', async (t) => {
  const part = '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}';
  const sent = {
    anthropic: Array.from({ length: 300 }, (_, index) => block(index)),
    google: Array.from({ length: 300 }, () => part),
  };
  for (const provider of ['anthropic', 'google'] as const) {
    const { gateway, caller } = await hostile(t, events(...sent[provider]));
    const read = async (): Promise<number> =>
      readAll((await gateway.stream(caller, chatRequest('hello', { model: models[provider] }))).pieces);
    t.is((await refused(read())).code, 'provider_bad_output', provider);
  }
});

test('a stream ends at 16 MB, whatever it is made of', async (t) => {
  const delta = `data: {"choices":[{"index":0,"delta":{"content":"${'x'.repeat(60_000)}"}}]}\n\n`;
  const comment = `: ${'x'.repeat(60_000)}\n`;
  for (const [kind, more] of Object.entries({ delta, comment })) {
    let isOpen = true;
    const { gateway, caller } = await hostile(t, (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: {"choices":[{"index":0,"delta":{"content":"first"}}]}\n\n');
      const go = (): void => {
        while (isOpen && response.write(more));
      };
      response.on('drain', go).on('close', () => (isOpen = false));
      go();
    });
    const stream = await gateway.stream(caller, chatRequest('hello'));
    t.is((await refused(readAll(stream.pieces))).code, 'provider_bad_output', kind);
  }
});

test('one event of a megabyte is read, one line without an end and one of objects without end are not', async (t) => {
  const good = `{"choices":[{"index":0,"delta":{"content":"${'x'.repeat(900_000)}"},"finish_reason":"stop"}]}`;
  const fine = await hostile(t, events(good, '[DONE]'));
  t.is(await readAll((await fine.gateway.stream(fine.caller, chatRequest('hello'))).pieces), 900_000);
  for (const data of [textOf(1_500_000, 'x'), `{"choices":[${textOf(900_000, '{},')}{}]}`, textOf(60_000, '[')]) {
    const { gateway, caller } = await hostile(t, events(data));
    t.is((await refused(gateway.stream(caller, chatRequest('hello')))).code, 'provider_bad_output', data.slice(0, 30));
  }
});

test('a compressed answer is not unpacked: a bomb stays as small as it came', async (t) => {
  const bomb = gzipSync(Buffer.alloc(50_000_000, '{'));
  const { gateway, caller } = await hostile(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(bomb);
  });
  t.is((await refused(gateway.chat(caller, chatRequest('hello')))).code, 'provider_bad_output');
});

test('headers without end are no valid HTTP', async (t) => {
  const { gateway, caller } = await hostile(t, json(message('x'), { 'x-long': 'x'.repeat(200_000) }));
  const { code } = await refused(gateway.chat(caller, chatRequest('hello')));
  t.regex(code, /^provider_(bad_output|unavailable)$/);
});

test('what is no number of tokens counts as not told', async (t) => {
  for (const reported of ['-5', '1e400', '0.5', '"7"', 'null', '9007199254740993', '[1]']) {
    const usage = `,"usage":{"prompt_tokens":${reported},"completion_tokens":${reported},"total_tokens":${reported}}}`;
    const { gateway, caller, calls } = await hostile(t, json(message('four').replace(/\}$/, usage)));
    const { tokensSource } = await gateway.chat(caller, chatRequest('hello'));
    t.is(tokensSource, 'estimated', reported);
    t.deepEqual(calls.at(-1)?.end?.usage, { prompt_tokens: 2, completion_tokens: 1 }, reported);
  }
});

test('lone surrogates, zero characters and direction marks pass as text', async (t) => {
  const text = '\ud800\u0000\u202e\uffff';
  const { gateway, caller } = await hostile(t, json(message(text)));
  t.is((await gateway.chat(caller, chatRequest('hello'))).answer.content, text);
});

const failing =
  (length: number): RequestListener =>
  (_request, response) => {
    response.writeHead(400).end(`{"error":{"message":"no","z":"${'x'.repeat(length)}"}}`);
  };

test('an error of a megabyte is not read, one of 60 KB is', async (t) => {
  const long = await hostile(t, failing(1_000_000));
  t.is((await refused(long.gateway.chat(long.caller, chatRequest('hello')))).code, 'provider_bad_output');
  const short = await hostile(t, failing(60_000));
  t.is((await refused(short.gateway.chat(short.caller, chatRequest('hello')))).code, 'provider_rejected');
});

test('answers in flight of one project have a budget: beyond it a call is overloaded, and ended ones make room', async (t) => {
  const text = message('x'.repeat(1_000_000));
  const gate = Promise.withResolvers<void>();
  let waiting = 0;
  const { gateway, caller } = await hostile(
    t,
    (_request, response) => {
      // All but the last bytes of each.
      response.writeHead(200, { 'content-type': 'application/json' }).write(text.slice(0, -2));
      waiting += 1;
      void gate.promise.then(() => response.end(text.slice(-2)));
    },
    { answerBytes: { perOwner: 2_500_000, total: 100_000_000 } },
  );
  const all = Array.from({ length: 3 }, () => gateway.chat(caller, chatRequest('hello')));
  const error = await refused(Promise.race(all.map(async (one) => one)));
  t.is(error.code, 'overloaded');
  t.is(error.headers['Retry-After'], '2');
  gate.resolve();
  const ended = await Promise.allSettled(all);
  t.is(ended.filter(({ status }) => status === 'fulfilled').length, 2);
  const again = await gateway.chat(caller, chatRequest('hello'));
  t.is(again.answer.content.length, 1_000_000);
  t.is(waiting, 4);
});
