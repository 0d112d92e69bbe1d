import test from 'ava';
import { breaksBefore, codePointsOf, unitsOf } from '#lib/code-points.ts';

const texts = ['', 'abc', 'a🛏b🛏', '🛏🛏', '\u{d83d}x', 'x\u{d83d}', '\u{decf}\u{d83d}\u{decf}', 'a\n🛏\nb'];

test('code points are counted as an iteration counts them', (t) => {
  for (const text of texts) t.is(codePointsOf(text), Array.from(text).length, JSON.stringify(text));
});

test('a number of code points leads to the same place as an iteration', (t) => {
  for (const text of texts) {
    const characters = Array.from(text);
    for (let count = 0; count <= characters.length + 1; count += 1) {
      t.is(unitsOf(text, count), characters.slice(0, count).join('').length, `${JSON.stringify(text)} ${count}`);
    }
  }
});

test('line breaks are counted up to a place', (t) => {
  t.deepEqual(
    [0, 1, 2, 3, 9].map((end) => breaksBefore('a\n\nb', end)),
    [0, 0, 1, 2, 2],
  );
});
