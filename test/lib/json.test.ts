import test from 'ava';
import { TooManyValues, parseExactJson } from '#lib/json.ts';

const through = (text: string): string => JSON.stringify(parseExactJson(text));

for (const number of [
  '9007199254740995',
  '-9007199254740993',
  '123456789012345678901234567890',
  '1e400',
  '-1E-400',
  '-0',
  '1.0',
  '1E2',
  '0.1234567890123456789012345678901234567890',
  '99999999999999999999.000000000000000001',
]) {
  test(`${number} comes out as it went in`, (t) => {
    t.is(through(number), number);
    t.is(through(`{"a":[${number},{"b":${number}}]}`), `{"a":[${number},{"b":${number}}]}`);
  });
}

test('numbers that JavaScript holds are plain numbers', (t) => {
  t.deepEqual(parseExactJson('[0,1,-1,1.5,9007199254740991,1e+21]'), [0, 1, -1, 1.5, 9_007_199_254_740_991, 1e21]);
});

test('text, literals and structure stay as they are', (t) => {
  const text = String.raw`{"a":"9007199254740995","b":"\u0000","c":"\ud800","d":[true,false,null],"e":{}}`;
  t.is(through(text), text);
});

test('__proto__ is a field like any other', (t) => {
  t.is(through('{"__proto__":{"a":9007199254740995}}'), '{"__proto__":{"a":9007199254740995}}');
  t.is(Reflect.get({}, 'a'), undefined);
});

test('what is not JSON is a SyntaxError', (t) => {
  for (const text of ['', '{', '01', 'undefined', '{"a":}'])
    t.throws(() => parseExactJson(text), { instanceOf: SyntaxError });
});

test('nesting that no stack holds is no failure', (t) => {
  const text = '['.repeat(20_000) + ']'.repeat(20_000);
  t.is(through(text), text);
});

const list = (last: string): string => `[${'1,'.repeat(100)}${last}]`;

test('a bound on values holds where numbers may have to be kept, and nowhere else', (t) => {
  t.throws(() => parseExactJson(list('1.50'), 100), { instanceOf: TooManyValues });
  t.is(through(list('1.50')), list('1.50'));
  t.is(JSON.stringify(parseExactJson(list('1'), 100)), list('1'));
  t.is(JSON.stringify(parseExactJson(list('-0'), 200)), list('-0'));
});
