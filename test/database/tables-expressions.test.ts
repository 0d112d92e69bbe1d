import test from 'ava';
import { faultOfExpression } from '#domain/database/tables/columns.ts';
import { nearest } from '#lib/nearest.ts';

for (const expression of [
  '1',
  `'a'`,
  `'it''s )'`,
  `E'\\')'`,
  `e'\\\\'`,
  `"A)".b`,
  '$$ ) $$',
  '$tag$ $$ ) $tag$',
  'array[1, (2)]',
  `'a'::text || ')'`,
  `'\\'')'`,
  `äe'\\'`,
  `U&'\\0041'`,
  `a$b`,
  `interval '1 day' - '1'::interval`,
]) {
  test(`${expression} is one expression`, (t) => t.is(faultOfExpression(expression), null));
}

for (const expression of [
  '',
  ' ',
  ')',
  '(',
  '1), (2',
  '(]',
  `'`,
  `'a' '`,
  `e'\\'`,
  `"`,
  '$$ )',
  '$a$ $b$',
  '1; 2',
  '1 -- 2',
  '1 /* 2',
  '/* ( */ 1',
  `'a'--`,
]) {
  test(`${JSON.stringify(expression)} is not one expression`, (t) =>
    t.is(typeof faultOfExpression(expression), 'string'));
}

test('a long text is judged quickly', (t) => {
  t.is(typeof faultOfExpression('$a$'.repeat(3333)), 'string');
  t.is(typeof faultOfExpression(`${`'a`.repeat(5000)}(`), 'string');
});

test('the nearest name is near', (t) => {
  t.is(nearest('custmers', ['orders', 'customers']), 'customers');
  t.is(nearest('Customers', ['customers']), 'customers');
  t.is(nearest('x', ['customers']), null);
  t.is(nearest('customers', []), null);
});
