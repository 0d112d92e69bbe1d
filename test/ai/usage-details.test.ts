import test from 'ava';
import { bounded, reserveFor } from '#domain/ai/gateway/estimate.ts';
import { costOf, openPrices } from '#domain/ai/prices/prices.ts';
import { usePlatform } from '#test/support/platform.ts';
import { configure, saying } from './chat-scene.ts';
import { chatRequest, gatewayAlone, knownModel } from './gateway-alone.ts';
import { hostile, json } from './hostile-scene.ts';
import { serve } from '#test/support/serve.ts';

const platform = usePlatform(test);

/** Prices of a million tokens in USD: input 2, read 0.5, written 2.5, output 8. */
const price = { input: 2000, cached: 500, written: 2500, output: 8000 };
const tiers = { flex: 0.5, priority: 2 };
const known = (provider: 'openai' | 'anthropic' | 'google') =>
  knownModel(provider, 'm', { price, ...(provider === 'openai' && { tiers }) });

const answers = {
  openai: {
    service_tier: 'priority',
    choices: [{ index: 0, message: { content: 'x' }, delta: { content: 'x' }, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: 1000,
      completion_tokens: 100,
      total_tokens: 1100,
      prompt_tokens_details: { cached_tokens: 600, cache_write_tokens: 100 },
      completion_tokens_details: { reasoning_tokens: 40 },
    },
  },
  anthropic: {
    content: [{ type: 'text', text: 'x' }],
    usage: {
      input_tokens: 300,
      cache_read_input_tokens: 600,
      cache_creation_input_tokens: 100,
      output_tokens: 100,
      service_tier: 'standard',
    },
  },
  google: {
    candidates: [{ content: { parts: [{ text: 'x' }] }, finishReason: 'STOP' }],
    usageMetadata: {
      promptTokenCount: 1000,
      cachedContentTokenCount: 600,
      candidatesTokenCount: 60,
      thoughtsTokenCount: 40,
    },
  },
} as const;

const plain = 300 * 2000 + 600 * 500 + 100 * 2500 + 100 * 8000;
const expected = {
  openai: {
    cost: plain * 2,
    usage: { cached_tokens: 600, cache_write_tokens: 100, reasoning_tokens: 40 },
    tier: 'priority',
  },
  anthropic: { cost: plain, usage: { cached_tokens: 600, cache_write_tokens: 100 }, tier: 'standard' },
  google: {
    cost: 400 * 2000 + 600 * 500 + 100 * 8000,
    usage: { cached_tokens: 600, reasoning_tokens: 40 },
    tier: undefined,
  },
};

for (const provider of ['openai', 'anthropic', 'google'] as const) {
  test(`what ${provider} read from its cache, wrote to it and thought is told and priced`, async (t) => {
    const { gateway, caller, calls } = await hostile(t, json(JSON.stringify(answers[provider])), {
      models: [known(provider)],
    });
    const { usage } = await gateway.chat(caller, chatRequest('hello', { model: `${provider}/m` }));
    const { cost, usage: details, tier } = expected[provider];
    const reported = { prompt_tokens: 1000, completion_tokens: 100, ...details };
    t.deepEqual(usage, tier === undefined ? reported : { ...reported, service_tier: tier });
    t.is(calls.at(-1)?.end?.costNanoUsd, cost);
  });
}

test('a stream is priced by the details of its last word', async (t) => {
  const { choices, usage, service_tier } = answers.openai;
  const lines = [
    { choices, service_tier },
    { choices: [], usage },
  ].map((one) => `data: ${JSON.stringify(one)}\n\n`);
  const { gateway, caller, calls } = await hostile(
    t,
    (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`${lines.join('')}data: [DONE]\n\n`);
    },
    { models: [known('openai')] },
  );
  const stream = await gateway.stream(caller, chatRequest('hello', { model: 'openai/m' }));
  const steps: unknown[] = [];
  for await (const step of stream.pieces) steps.push(step);
  t.is(stream.end().usage.cached_tokens, 600);
  t.is(calls.at(-1)?.end?.costNanoUsd, plain * 2);
});

test('more cached or written tokens than there are of the prompt make nothing cheaper than all of it cached', async (t) => {
  const usage = { prompt_tokens: 10, completion_tokens: 0, cached_tokens: 1e9, cache_write_tokens: 1e9 };
  t.is(costOf(price, usage), 10 * 500);
  const said = { ...answers.openai, usage: { ...answers.openai.usage, prompt_tokens_details: { cached_tokens: -1 } } };
  const { gateway, caller } = await hostile(t, json(JSON.stringify(said)), { models: [known('openai')] });
  t.is((await gateway.chat(caller, chatRequest('x', { model: 'openai/m' }))).usage.cached_tokens, undefined);
});

test('a hard budget keeps free what a dearer tier costs, and auto as the dearest', async (t) => {
  const model = known('openai');
  const reserved = (tier?: string): number =>
    reserveFor({ ...chatRequest('x'), max_tokens: 1000, ...(tier && { extra: { service_tier: tier } }) }, model) ?? 0;
  const more = (tier: string): number => reserved(tier) / reserved();
  t.true(more('priority') > 1.9);
  t.true(more('auto') > 1.9);
  t.true(more('flex') > 0.9, 'flex may be refused and served as the rest');
  // 10 MB of prompt cost nothing extra to cache, or are kept free for.
  t.true(reserved() >= 1000 * 8000 + price.written);
  const refusing = await gatewayAlone(t, { models: [model], hardBudget: true });
  await refusing.gateway.chat(
    refusing.caller,
    chatRequest('x', { model: 'openai/m', extra: { service_tier: 'priority' } }),
  );
  t.true((refusing.calls.at(-1)?.intent.reserveNanoUsd ?? 0) >= 1000 * 8000 * 2);
});

test('under a hard budget OpenAI itself is asked for its default tier unless another one is named', (t) => {
  const route = { model: 'm', known: known('openai'), hardBudget: true, key: { target: { isVendor: true } } };
  t.is(bounded(chatRequest('x'), route).extra?.['service_tier'], 'default');
  t.is(bounded(chatRequest('x', { extra: { service_tier: 'flex' } }), route).extra?.['service_tier'], 'flex');
  t.is(bounded(chatRequest('x'), { ...route, key: { target: { isVendor: false } } }).extra, undefined);
  t.is(bounded(chatRequest('x'), { ...route, hardBudget: false }).extra, undefined);
});

test('the table of prices knows what caches cost, long prompts included', async (t) => {
  const { find } = await openPrices(undefined);
  t.like(find('anthropic', 'claude-sonnet-4-5')?.price, { input: 3000, cached: 300, written: 3750 });
  t.like(find('anthropic', 'claude-sonnet-4-5')?.price?.longer?.[0], { input: 6000, cached: 600, written: 7500 });
  t.like(find('openai', 'gpt-5'), { price: { cached: 125 }, tiers: { priority: 2, flex: 0.5 } });
});

test('details stand in the answer, in the stream and in the row of the call', async (t) => {
  const base = await serve(t, (request, response) => {
    request.resume();
    const { choices, usage, service_tier } = answers.openai;
    if (request.url?.endsWith('/models')) return void response.end('{"data":[]}');
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ choices, usage, service_tier }));
  });
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  await configure(platform(), { user, project }, 'openai', base);
  const { call } = platform().client;
  const answer = await call('POST', '/api/ai/chat', { key: project.key, body: saying('x', { model: 'openai/m' }) });
  const details = {
    prompt_tokens_details: { cached_tokens: 600, cache_write_tokens: 100 },
    completion_tokens_details: { reasoning_tokens: 40 },
    service_tier: 'priority',
  };
  t.deepEqual(answer.body.usage, { prompt_tokens: 1000, completion_tokens: 100, ...details }, answer.text);
  const { body } = await call('GET', `/projects/${project.id}/ai/usage`, { token: user.token });
  t.like(body.recent_logs[0], details);
});
