import test from 'ava';
import { JsonText, stringifyWithTexts } from '#lib/json-text.ts';

test('texts go out as they are, in their places', (t) => {
  const value = {
    a: new JsonText('[9007199254740995, 1.50]'),
    b: 'x',
    c: [new JsonText('null'), new JsonText('"$&"')],
  };
  t.is(stringifyWithTexts(value), '{"a":[9007199254740995, 1.50],"b":"x","c":[null,"$&"]}');
  t.is(stringifyWithTexts(new JsonText('{"a": 1}')), '{"a": 1}');
  t.is(stringifyWithTexts({ a: undefined, b: [1, null] }), '{"b":[1,null]}');
});

test('a text is not parsed: it may have more values than memory holds', (t) => {
  const broken = new JsonText('not JSON');
  t.is(stringifyWithTexts([broken]), '[not JSON]');
  t.throws(() => JSON.stringify([broken]), { instanceOf: SyntaxError });
});

test('without the others its value is written, exact numbers included', (t) => {
  t.is(JSON.stringify({ a: new JsonText('[ 9007199254740995 ]') }), '{"a":[9007199254740995]}');
});

test('a value that cannot be written leaves nothing behind', (t) => {
  t.throws(() => stringifyWithTexts([new JsonText('1'), 1n]), { instanceOf: TypeError });
  t.is(JSON.stringify([new JsonText('1')]), '[1]');
});
