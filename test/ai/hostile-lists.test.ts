import test from 'ava';
import { knownModel, refused } from './gateway-alone.ts';
import { hostile, json, textOf } from './hostile-scene.ts';

const vectorsAnswer = (inputs: number, embedding: string): string =>
  `{"data":[${Array.from({ length: inputs }, (_, index) => `{"index":${index},"embedding":${embedding}}`).join(',')}]}`;

test('a large answer with embeddings is read by a thread, and is as exact as a small one', async (t) => {
  const embedding = JSON.stringify(Array.from({ length: 1000 }, (_, at) => Math.sin(at)));
  const { gateway, caller } = await hostile(t, json(vectorsAnswer(50, embedding)));
  const { vectors, dimensions } = await gateway.embed(caller, {
    model: 'openai/m',
    input: Array.from({ length: 50 }, () => 'x'),
  });
  t.is(dimensions, 1000);
  t.is(vectors.length, 50);
  t.deepEqual([...(vectors[49] ?? [])], JSON.parse(embedding));
});

test('an answer with embeddings is bounded by the texts that were asked for', async (t) => {
  const long = `[${textOf(1_000_000, '0.5,')}1]`;
  const texts = [
    vectorsAnswer(1, long),
    vectorsAnswer(1, `[${textOf(380_000, '{},')}1]`),
    vectorsAnswer(1, '[1,1e999]'),
  ];
  for (const text of texts) {
    const { gateway, caller } = await hostile(t, json(text));
    const error = await refused(gateway.embed(caller, { model: 'openai/m', input: ['x'] }));
    t.is(error.code, 'provider_bad_output', text.slice(0, 60));
  }
});

const list = (count: number, id = 'm'): string =>
  JSON.stringify({ data: Array.from({ length: count }, (_, at) => ({ id: `${id}${at}` })) });

test('a list of models has at most 1 MB, 5,000 ids and 200 characters each', async (t) => {
  const found = async (text: string): Promise<number | string> => {
    const { gateway, caller } = await hostile(t, json(text), { models: [knownModel('openai', 'm1')] });
    const { models: listed, failed } = await gateway.models(caller.project);
    return listed.filter(({ provider }) => provider === 'openai').length || `${failed.length} failed`;
  };
  t.is(await found(list(5000, 'm'.repeat(60))), 5000);
  t.is(await found(list(5001)), '3 failed');
  t.is(await found(list(5001, 'm'.repeat(60))), '3 failed');
  t.is(await found(`{"data":[{"id":"a"},{"id":"${'m'.repeat(201)}"}]}`), 1);
  t.is(await found(`{"data":[{"id":"a"}],"z":"${'x'.repeat(1_000_000)}"}`), '3 failed');
});
