import test from 'ava';
import { CallFault } from '#workers/runtimes/runtime.ts';
import { readArgs } from '#workers/services/call-args.ts';

const megabyte = 1024 * 1024;
const withPadding = (json: string, length: number): string => `{"v":${json},"pad":"${'x'.repeat(length)}"}`;

for (const [op, length] of [
  ['db.insert', 8 * megabyte],
  ['fetch', 14 * megabyte],
  ['fetch.read', 64 * 1024],
  ['no.such', 64 * 1024],
] as const) {
  test(`${op} carries ${length / 1024} KB and no more`, (t) => {
    const text = `"${'x'.repeat(length - 2)}"`;
    t.is((readArgs(op, text) as string).length, length - 2);
    t.throws(() => readArgs(op, `${text} `), { instanceOf: CallFault, message: /at most \d+ [KM]B|larger than 10 MB/ });
  });
}

test('numbers that JavaScript cannot hold stay as they are', (t) => {
  const text = '{"v":[9007199254740995,1e400]}';
  t.is(JSON.stringify(readArgs('db.query', text)), text);
});

test('in a long call they are refused instead of being changed', (t) => {
  for (const number of ['9007199254740995', '-9007199254740995']) {
    const text = withPadding(`[${number}]`, megabyte);
    t.throws(() => readArgs('db.query', text), { instanceOf: CallFault, message: /must be text/ });
  }
});

test('in a long call floats, and digits in text, are read', (t) => {
  const json = String.raw`[0.30000000000000004,1e21,1234567890123456.5,"9007199254740995","\"9007199254740995","\\"]`;
  t.deepEqual((readArgs('db.query', withPadding(json, megabyte)) as { v: unknown }).v, JSON.parse(json));
});

test('a call of too many parts is refused before it is built', (t) => {
  for (const unit of ['{},', '[],', '{"a":1},']) {
    const text = `[${unit.repeat(600_000)}0]`;
    t.throws(() => readArgs('db.query', text), { instanceOf: CallFault, message: /too many values/ });
  }
});
