import test from 'ava';
import { type SentEvent, ProviderFault } from '#domain/ai/providers/dialect.ts';
import { createSseReader } from '#domain/ai/providers/event-stream.ts';

const read = (...chunks: readonly (string | Buffer)[]): readonly SentEvent[] => {
  const reader = createSseReader();
  return chunks.flatMap((chunk) => reader.feed(Buffer.from(chunk)));
};

test('a stream of events is read as the HTML standard has it', (t) => {
  t.deepEqual(read('\uFEFFdata:a\n', 'data: b\n\n'), [{ event: '', data: 'a\nb' }]);
  t.deepEqual(read('event: x\r\n: note\r\nid: 1\r\nretry: 5\r\nodd\r\ndata: a\r\n\r\n'), [{ event: 'x', data: 'a' }]);
  t.deepEqual(read('data: a\n\ndata: torn off'), [{ event: '', data: 'a' }]);
  t.deepEqual(read('data: a\r', '\ndata: b\r\n\r', '\n'), [{ event: '', data: 'a\nb' }]);
  const wide = Buffer.from('data: ü€😀\n\n');
  for (let at = 1; at < wide.length; at += 1) {
    t.deepEqual(read(wide.subarray(0, at), wide.subarray(at)), [{ event: '', data: 'ü€😀' }]);
  }
  t.is(read('data: ', 'x'.repeat(900_000), '\n\n')[0]?.data.length, 900_000);
  t.throws(() => read('data: ', 'x'.repeat(600_000), 'x'.repeat(600_000)), { instanceOf: ProviderFault });
  t.throws(() => read(...Array.from({ length: 30 }, () => `data: ${'x'.repeat(50_000)}\n`)), {
    instanceOf: ProviderFault,
  });
});
