import test from 'ava';
import { completionBody } from '#api/ai/openai-shapes.ts';
import type { ChatRequest } from '#domain/ai/chat.ts';
import { bounded, promptTokens, reserveFor, reserveForInput } from '#domain/ai/gateway/estimate.ts';
import { openStream } from '#domain/ai/providers/openai.ts';
import { ServiceError } from '#lib/errors.ts';
import { until } from '#test/support/until.ts';
import { chatRequest, gatewayAlone, knownModel } from './gateway-alone.ts';

const known = knownModel('openai', 'gpt-4o');
const priced = { models: [known] };

/** The reservation for the prompt, in tokens: the price is 1000 nano-USD for each. */
const promptReserved = (fields: Partial<ChatRequest>): number =>
  ((reserveFor({ ...chatRequest(''), max_tokens: 1, ...fields }, known) ?? 0) - 2000) / 1000;

const withImage = (url: string): Pick<ChatRequest, 'messages'> => ({
  messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
});

test('what is kept free for a prompt are the bytes of all that goes out, whatever the language', (t) => {
  const messages = [{ role: 'user' as const, content: '日本語'.repeat(100) }];
  t.true(promptReserved({ messages }) >= 900);
  t.is(promptTokens({ ...chatRequest(''), messages }), 75);
  const tools = [{ type: 'function' as const, function: { name: 'f', description: 'ü'.repeat(500) } }];
  t.true(promptReserved({ tools }) >= 1000 + 1000);
  t.true(promptReserved({ extra: { prediction: { content: 'x'.repeat(5000) } } }) >= 5000);
  t.true((reserveForInput(['ü'.repeat(100)], known) ?? 0) >= 200 * 1000);
});

test('an image is kept free for with the most that its vendor may count', (t) => {
  const image = withImage('https://images.test/a.png');
  t.true(promptReserved(image) >= 10_000);
  t.true(promptReserved({ ...image, model: 'gpt-4o-mini' }) >= 48_169);
  t.true(promptReserved({ ...image, model: 'gemini-2.5-pro' }) < 20_000);
  t.true(promptReserved(withImage(`data:application/pdf;base64,${'A'.repeat(90_000)}`)) >= 90_000);
});

test('each of several answers is kept free for; what is beyond all budgets is a number for Postgres all the same', (t) => {
  const one = reserveFor({ ...chatRequest('x'), max_tokens: 100 }, known) ?? 0;
  const eight = reserveFor({ ...chatRequest('x'), max_tokens: 100, extra: { n: 8 } }, known) ?? 0;
  t.true(eight - one >= 7 * 100 * 2000);
  const dear = knownModel('openai', 'dear', { price: { input: 1e9, output: 1e9 } });
  t.is(reserveFor({ ...chatRequest('x'), max_tokens: 10_000_000, extra: { n: 128 } }, dear), 2e15);
});

test('a hard budget grants an end of the answer; others leave it to the provider', (t) => {
  const route = { model: 'gpt-4o', known };
  t.is(bounded(chatRequest('x'), { ...route, hardBudget: true }).max_tokens, 1000);
  t.is(bounded(chatRequest('x'), { ...route, hardBudget: false }).max_tokens, undefined);
});

test('a model without a price is refused under a hard budget, and nobody is asked', async (t) => {
  for (const models of [[], [knownModel('openai', 'gpt-4o', { price: null })]]) {
    const { gateway, caller, calls, upstream } = await gatewayAlone(t, { models, hardBudget: true });
    const refusals = [
      () => gateway.chat(caller, chatRequest('x')),
      () => gateway.stream(caller, chatRequest('x')),
      () => gateway.embed(caller, { model: 'openai/e', input: ['x'] }),
    ];
    for (const refusal of refusals) {
      const error = await t.throwsAsync<ServiceError>(refusal, { instanceOf: ServiceError, code: 'price_unknown' });
      t.is(error?.status, 400);
      t.regex(error?.hint ?? '', /PLINTH_AI_PRICES/);
    }
    t.is(calls.length + upstream.requests.length, 0);
  }
});

test('a call that is left, times out or is cut was given up; one that the provider refused was not', async (t) => {
  const times = { firstByteMs: 400, idleMs: 400 };
  const { gateway, caller, calls, client } = await gatewayAlone(t, { ...priced, times });
  for (const word of ['BLACKHOLE', 'RESETHEADERS', 'NOTJSON', 'ERR400', 'ERR401']) {
    await t.throwsAsync(gateway.chat(caller, chatRequest(word)), undefined, word);
  }
  t.deepEqual(
    calls.map(({ end }) => [end?.givenUp, end?.costNanoUsd !== 0]),
    [
      [true, true],
      [true, true],
      [true, true],
      [false, false],
      [false, false],
    ],
  );
  const left = gateway.chat(caller, chatRequest('BLACKHOLE'));
  await until(() => calls.length === 6);
  await new Promise(setImmediate);
  client.leave();
  await t.throwsAsync(left);
  t.like(calls[5]?.end, { status: 'client_closed', givenUp: true, tokensSource: 'estimated' });
});

test('what parts of many texts have used is told when a later part fails', async (t) => {
  const keys = { keys: (server: { google: string }) => ({ google: server.google }) };
  const { gateway, caller, calls, upstream } = await gatewayAlone(t, keys);
  let requested = 0;
  upstream.answerWith(() => {
    requested += 1;
    return requested === 1 ? {} : { status: 400 };
  });
  const input = Array.from({ length: 150 }, (_, i) => `text ${i}`);
  await t.throwsAsync(gateway.embed(caller, { model: 'google/gemini-embedding-001', input }));
  t.is(requested, 2);
  t.is(calls[0]?.end?.status, 'error');
  t.true((calls[0]?.end?.usage?.prompt_tokens ?? 0) >= 100);
});

test('absurd numbers of a provider are cut to what may be', async (t) => {
  const { gateway, caller, calls, upstream } = await gatewayAlone(t, priced);
  const max = Number.MAX_SAFE_INTEGER;
  upstream.answerWith(() => ({ usage: { prompt_tokens: max, completion_tokens: max } }));
  const { usage } = await gateway.chat(caller, chatRequest('x'));
  t.deepEqual(usage, { prompt_tokens: 100_000_000, completion_tokens: 100_000_000 });
  t.deepEqual(calls[0]?.end?.usage, usage);
  t.true((calls[0]?.end?.costNanoUsd ?? Infinity) <= 1e13);
});

const isTaken = (fields: object): boolean => completionBody.safeParse({ ...chatRequest('x'), ...fields }).success;

test('absurd numbers of a request are refused', (t) => {
  t.true(isTaken({ n: 128, max_tokens: 10_000_000 }));
  t.true(isTaken({ n: null, max_tokens: null }));
  for (const n of [0, 1.5, 129, 1e300, '2', [2]]) t.false(isTaken({ n }), String(n));
  for (const name of ['max_tokens', 'max_completion_tokens']) t.false(isTaken({ [name]: 10_000_001 }), name);
});

test('all choices of a stream count, and what a model thinks', (t) => {
  const reader = openStream();
  const delta = { content: 'four', tool_calls: [{ function: { name: 'ab', arguments: '{}' } }] };
  const chunk = { choices: [0, 1, 2].map((index) => ({ index, delta: { ...delta, reasoning_content: 'th' } })) };
  const piece = reader.take({ event: '', data: JSON.stringify(chunk) });
  t.is(piece?.text, 'four');
  t.is(piece?.unshown, 3 * 2 + 2 * 8);
});
