import test from 'ava';
import { toExactJsonOf, toJsonOf } from '#lib/postgres/values.ts';

const textArray = toJsonOf(1009, new Set());

test('an array of texts is read with what is quoted and escaped in it', (t) => {
  const cases: readonly (readonly [string, unknown])[] = [
    ['{}', []],
    ['{a,NULL,"NULL",""}', ['a', null, 'NULL', '']],
    [String.raw`{"a\"b","\\","\\\"","ä\\🛏","x,y}"}`, ['a"b', '\\', '\\"', 'ä\\🛏', 'x,y}']],
    [
      String.raw`{{"a\"",b},{c,"d d"}}`,
      [
        ['a"', 'b'],
        ['c', 'd d'],
      ],
    ],
    [String.raw`[0:1]={"a\\",b}`, ['a\\', 'b']],
  ];
  for (const [text, value] of cases) t.deepEqual(JSON.parse(textArray(text)), value, text);
  t.is(toExactJsonOf(1231, true)('{12345678901234567890.5,NULL}'), '[12345678901234567890.5,null]');
});

test('an element of megabytes of backslashes is read', (t) => {
  const [read] = JSON.parse(textArray(`{"${String.raw`\"`.repeat(8_000_000)}"}`)) as [string];
  t.true(read === '"'.repeat(8_000_000));
});
