import test from 'ava';
import { nearest } from '#lib/nearest.ts';

test('the name that was probably meant is found, and nothing that is far away', (t) => {
  t.is(nearest('gpt-4o-mni', ['gpt-4o', 'gpt-4o-mini', 'claude']), 'gpt-4o-mini');
  t.is(nearest('GPT-4O', ['gpt-4o']), 'gpt-4o');
  t.is(nearest('nothing-like-it', ['gpt-4o']), null);
});

test('a stranger’s thousands of long names are not all compared', (t) => {
  let polled = 0;
  const names = function* (): Generator<string> {
    for (; polled < 5000; polled += 1) yield `${'y'.repeat(74)}${polled}`;
  };
  t.is(nearest('x'.repeat(78), names()), null);
  t.true(polled < 100, `${polled} were compared`);
});
