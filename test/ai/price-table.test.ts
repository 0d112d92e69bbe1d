import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test from 'ava';
import { costOf, openPrices } from '#domain/ai/prices/prices.ts';
import { packagedModels } from '#domain/ai/prices/package.ts';
import { ConfigError } from '#lib/config.ts';

const folder = await mkdtemp(path.join(tmpdir(), 'prices-'));
test.after.always(() => rm(folder, { recursive: true, force: true }));

let files = 0;
const fileWith = async (text: string): Promise<string> => {
  files += 1;
  const file = path.join(folder, `${files}.json`);
  await writeFile(file, text);
  return file;
};

test('a model is found by its name, its alias, its dated edition, in any letters', async (t) => {
  const { find } = await openPrices(undefined);
  for (const name of [
    'gpt-4o-mini',
    'GPT-4o-Mini',
    'gpt-4o-mini-2024-07-18',
    'gpt-4o-mini-20240718',
    'gpt-4o-mini-2031-01-01',
  ])
    t.like(find('openai', name), {
      id: name,
      type: 'chat',
      contextWindow: 128_000,
      price: { input: 150, output: 600 },
    });
  t.is(find('anthropic', 'claude-sonnet-4-5-20250929')?.price?.input, 3000);
  t.is(find('google', 'models/gemini-2.5-flash')?.price?.output, 2500);
  t.truthy(find('xai', 'grok-4')?.price);
  t.truthy(find('deepseek', 'deepseek-chat')?.price);
  t.truthy(find('groq', 'llama-3.3-70b-versatile')?.price);
});

test('a fine-tuned model without a price of its own has that of its base', async (t) => {
  const { find } = await openPrices(undefined);
  const base = find('openai', 'gpt-4.1-mini');
  t.truthy(base?.price);
  t.like(find('openai', 'ft:gpt-4.1-mini-2025-04-14:a-company::abc'), { type: 'chat', price: base?.price });
  t.is(find('openai', 'ft:gpt-4o-mini-2024-07-18:a-company::abc')?.price?.input, 300);
  for (const name of ['ft:', 'ft::a', 'ft:no-such-model:a', 'ft:gpt-4.1-mini']) t.is(find('openai', name), undefined);
});

test('nothing is known of other names, nor of one provider’s models under another', async (t) => {
  const { find, providersOf } = await openPrices(undefined);
  for (const name of ['', 'gpt', 'no-such-model', '__proto__', 'constructor', 'gpt-4o-mini\0', 'x'.repeat(100_000)])
    t.is(find('openai', name), undefined);
  t.is(find('google', 'claude-opus-4-6'), undefined);
  t.is(find('anthropic', 'gpt-4o-mini'), undefined);
  t.deepEqual(providersOf('gpt-4o-mini'), ['openai']);
  t.deepEqual(providersOf('no-such-model'), []);
});

test('embedding models are known by kind, dimensions and price', async (t) => {
  const { find } = await openPrices(undefined);
  const kind = { type: 'embedding' };
  t.like(find('openai', 'text-embedding-3-small'), { ...kind, dimensions: 1536, price: { input: 20, output: 0 } });
  t.like(find('openai', 'text-embedding-3-large'), { ...kind, dimensions: 3072 });
  t.like(find('openai', 'text-embedding-ada-002'), { ...kind, dimensions: 1536 });
  t.like(find('google', 'gemini-embedding-001'), { ...kind, dimensions: 3072 });
  t.like(find('google', 'text-embedding-004'), { ...kind, dimensions: 768, price: null });
});

test('a long prompt costs what long prompts cost, and it is the cost that is rounded', async (t) => {
  const { find } = await openPrices(undefined);
  const price = find('google', 'gemini-2.5-pro')?.price;
  if (!price) return t.fail('there is no price');
  t.is(costOf(price, { prompt_tokens: 200_000, completion_tokens: 1 }), 200_000 * 1250 + 10_000);
  t.is(costOf(price, { prompt_tokens: 200_001, completion_tokens: 1 }), 200_001 * 2500 + 15_000);
  t.is(costOf({ input: 0.4, output: 0 }, { prompt_tokens: 3, completion_tokens: 0 }), 1);
});

test('the operator’s file comes first, and says no more than it says', async (t) => {
  const file = await fileWith(
    JSON.stringify({
      openai: {
        'my-model': { input_usd_per_million: 1, output_usd_per_million: 2, context_window: 8192 },
        'my-vectors': { type: 'embedding', dimensions: 8 },
        'GPT-4o-mini': { input_usd_per_million: 0.001 },
      },
    }),
  );
  const { find, providersOf } = await openPrices(file);
  t.like(find('openai', 'my-model'), { type: 'chat', contextWindow: 8192, price: { input: 1000, output: 2000 } });
  t.like(find('openai', 'my-vectors'), { type: 'embedding', dimensions: 8, price: null });
  t.like(find('openai', 'gpt-4o-mini'), { contextWindow: 128_000, price: { input: 1, output: 0 } });
  t.deepEqual(providersOf('my-model'), ['openai']);
});

test('a file that cannot be used stops the start, and is named', async (t) => {
  const texts = [
    '',
    '{',
    '[]',
    '"x"',
    '{"nobody":{}}',
    '{"openai":{"m":{"input_usd_per_million":-1}}}',
    '{"openai":{"m":{"input_usd_per_million":"1"}}}',
    '{"openai":{"m":{"output_usd_per_million":1}}}',
    '{"openai":{"m":{"input":1}}}',
    '{"openai":{"m":{"type":"image"}}}',
    '{"openai":{"":{}}}',
  ];
  const given = [...(await Promise.all(texts.map(fileWith))), path.join(folder, 'none.json'), folder];
  for (const file of given) {
    const error = await t.throwsAsync(openPrices(file), { instanceOf: ConfigError }, file);
    t.true(error?.message.includes(file));
  }
});

test('a table that a thread has loaded is not read again, and is the same', async (t) => {
  const read = (): never => t.fail('it was read on the event loop');
  const loaded = await openPrices(undefined, { ...packagedModels, read });
  await loaded.load();
  await loaded.load();
  const atOnce = await openPrices(undefined);
  for (const [provider, model] of [
    ['openai', 'gpt-5'],
    ['anthropic', 'claude-sonnet-4-5-20250929'],
    ['google', 'models/gemini-2.5-flash'],
    ['xai', 'grok-4'],
    ['openai', 'no-such-model'],
  ] as const) {
    t.deepEqual(loaded.find(provider, model), atOnce.find(provider, model));
  }
  t.truthy(loaded.find('openai', 'gpt-5')?.price);
});

test('the tables of one process share what a thread has loaded', async (t) => {
  const [first, second] = await Promise.all([packagedModels.load(), packagedModels.load()]);
  t.is(first, second);
  t.is(await packagedModels.load(), first);
});

test('a call that comes before the table is loaded is answered all the same', async (t) => {
  const { promise, resolve } = Promise.withResolvers<ReturnType<typeof packagedModels.read>>();
  const prices = await openPrices(undefined, { ...packagedModels, load: () => promise });
  const loading = prices.load();
  t.truthy(prices.find('openai', 'gpt-5')?.price);
  resolve(new Map());
  await loading;
  t.truthy(prices.find('openai', 'gpt-5')?.price);
});
