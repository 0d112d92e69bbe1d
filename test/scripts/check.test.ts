import test from 'ava';
import { summarize } from '#scripts/commands/check.ts';

const types = { name: 'types', ok: true, seconds: 1.04, output: 'nothing to see' };
const lint = { name: 'lint', ok: false, seconds: 2, output: 'a bad line' };

test('the summary ends with one line that names every part', (t) => {
  t.is(summarize([types, lint]).split('\n').at(-1), 'check: types ok (1.0 s), lint FAILED (2.0 s)');
});

test('the output of a part that failed is shown, that of the others is not', (t) => {
  const text = summarize([types, lint]);
  t.true(text.includes('a bad line'));
  t.false(text.includes('nothing to see'));
});
