import test from 'ava';
import { ProviderFault } from '#domain/ai/providers/dialect.ts';
import { dialectOf } from '#domain/ai/providers/providers.ts';
import { embedWith, faultIn, peerFor } from '#test/support/ai-talk.ts';
import { vectorOf } from '#test/support/ai-upstream-lists.ts';
import { aiUpstreamFor } from '#test/support/ai-upstream.ts';

const embedders = ['openai', 'google'] as const;

for (const dialect of embedders) {
  test(`${dialect}: embeddings come in the order of the texts`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const input = ['a', 'grüße', 'c'];
    for (const isVendor of [true, false]) {
      const answer = await embedWith(peerFor(t, dialect, upstream[dialect], { isVendor }), {
        model: 'm',
        input,
        dimensions: 4,
      });
      t.deepEqual(
        answer.vectors.map((vector) => vector.map(Math.fround)),
        input.map((text) => vectorOf(text, 4).map(Math.fround)),
      );
    }
  });

  test(`${dialect}: embeddings that are too few, too many, no numbers or of different lengths are bad answers`, async (t) => {
    const upstream = await aiUpstreamFor(t);
    const peer = peerFor(t, dialect, upstream[dialect]);
    for (const vectors of [
      [],
      [[1]],
      [[1], [2], [3]],
      [[1], null],
      [[1], [null]],
      [[1], ['1']],
      [[1], []],
      [[1], [1, 2]],
    ]) {
      upstream.answerWith(() => ({ vectors }));
      const fault = await faultIn(embedWith(peer, { model: 'm', input: ['a', 'b'] }));
      t.is(fault.kind, 'bad_answer', JSON.stringify(vectors));
    }
  });
}

const base64 = (...floats: readonly number[]) => Buffer.from(new Float32Array(floats).buffer).toString('base64');

const body = (...data: readonly object[]) => JSON.stringify({ data, usage: { prompt_tokens: 9 } });

test('embeddings in base64 are read exactly; NaN, a torn one and a foreign place are bad answers', (t) => {
  const { readEmbeddings } = dialectOf('openai');
  const request = { model: 'm', input: ['a', 'b'] };
  const read = readEmbeddings(body({ index: 1, embedding: base64(2, 3) }, { index: 0, embedding: [0.5, 1] }), request);
  t.deepEqual(read, {
    model: 'm',
    vectors: [
      [0.5, 1],
      [2, 3],
    ],
    promptTokens: 9,
  });
  for (const bad of [base64(1, Number.NaN), base64(1, Infinity), 'AAAA', '', '!', 7, null]) {
    const answer = body({ index: 0, embedding: [1, 2] }, { index: 1, embedding: bad });
    t.throws(() => readEmbeddings(answer, request), { instanceOf: ProviderFault }, String(bad));
  }
  for (const index of [0, 2, 4_294_967_294, 1e15]) {
    const answer = body({ index: 0, embedding: [1] }, { index, embedding: [1] });
    t.throws(() => readEmbeddings(answer, request), { instanceOf: ProviderFault }, String(index));
  }
});
