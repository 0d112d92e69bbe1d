import test from 'ava';
import { scanJson } from '#lib/json-scan.ts';

const limits = { maxParts: 1_000_000, maxDepth: 100 };
const scan = (text: string, given = limits) => scanJson(Buffer.from(text), given);

const parses = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

/** A small generator with a seed, so that a failure can be repeated. */
const createRandom = (seed: number) => {
  let state = seed;
  return (max: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 4_294_967_296) * max);
  };
};

const tokens = ['{', '}', '[', ']', ',', ':', '"a"', '"', '\\', 'u00e9', '\\n', '0', '-', '1.5', 'e', '+', '.', 'true'];
tokens.push('null', 'nul', ' ', '\n', '\t', '\u0001', 'é', '12', '{"a":', '[1,', '""', '\u00a0');

test('texts of random tokens are valid exactly when JSON.parse takes them', (t) => {
  const random = createRandom(14);
  let valid = 0;
  for (let round = 0; round < 200_000; round += 1) {
    let text = '';
    for (let left = 1 + random(7); left > 0; left -= 1) text += tokens[random(tokens.length)] ?? '';
    const expected = parses(text);
    if (expected) valid += 1;
    if ((scan(text).verdict === 'valid') !== expected) t.fail(JSON.stringify(text));
  }
  t.true(valid > 1000, `${valid} were valid`);
});

test('values that were written by JSON.stringify and cut anywhere are valid only when they are whole', (t) => {
  const value = { a: [1, -2.5e-7, true, null, 'ü"\\\u0007\u2028'], b: { c: {}, d: [] }, '': '' };
  const text = JSON.stringify(value, null, 1);
  t.is(scan(text).verdict, 'valid');
  for (let length = 0; length < text.length; length += 1) t.is(scan(text.slice(0, length)).verdict, 'invalid');
});

test('parts count containers, strings and names, and eight numbers or literals as one', (t) => {
  t.like(scan('{"a":[],"b":"c"}'), { verdict: 'valid', parts: 5, depth: 2 });
  t.like(scan('[1,2,3,4,true,false,null,8]'), { parts: 2, depth: 1 });
  t.like(scan('[1,2,3,4,true,false,null,8,9]'), { parts: 3 });
  t.like(scan('1'), { parts: 1, depth: 0 });
});

test('more parts or levels than allowed are told apart from what is no JSON', (t) => {
  t.is(scan('[[],[]]', { maxParts: 2, maxDepth: 5 }).verdict, 'too_many');
  t.is(scan('[[[]]]', { maxParts: 9, maxDepth: 2 }).verdict, 'too_deep');
  t.is(scan('[[]]', { maxParts: 9, maxDepth: 2 }).verdict, 'valid');
  t.deepEqual(scan('[1,]'), { verdict: 'invalid', at: 3 });
});
