import test from 'ava';
import { createConcurrencyLimit } from '#lib/concurrency-limit.ts';

test('so many works of one name run at a time; others of it are refused, those of other names are not', async (t) => {
  const run = createConcurrencyLimit(2, () => new Error('too many'));
  const gate = Promise.withResolvers<string>();
  const [first, second] = [run('a', () => gate.promise), run('a', () => gate.promise)];
  await t.throwsAsync(
    run('a', () => Promise.resolve('third')),
    { message: 'too many' },
  );
  t.is(await run('b', () => Promise.resolve('other')), 'other');
  gate.resolve('done');
  t.deepEqual(await Promise.all([first, second]), ['done', 'done']);
  t.is(await run('a', () => Promise.resolve('later')), 'later');
});

test('a work that fails gives its place back', async (t) => {
  const run = createConcurrencyLimit(1, () => new Error('too many'));
  await t.throwsAsync(
    run('a', () => Promise.reject(new Error('failed'))),
    { message: 'failed' },
  );
  t.is(await run('a', () => Promise.resolve('next')), 'next');
});
