import { readdirSync } from 'node:fs';
import { getPriority } from 'node:os';
import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { ServiceError } from '#lib/errors.ts';
import { helperThreadNice } from '#lib/cpu-priority.ts';
import { createJsonParser, maxInlineBytes } from '#lib/json-parser.ts';

const codeOf = (error: unknown): unknown => (error instanceof ServiceError ? error.code : error);

const refused = async (work: Promise<unknown>): Promise<unknown> => {
  try {
    await work;
    return 'not refused';
  } catch (error) {
    return codeOf(error);
  }
};

const parser = createJsonParser({ threads: 2 });
test.after.always(() => parser.close());

const padded = (json: string): Buffer => Buffer.from(json + ' '.repeat(maxInlineBytes));

test('a large text gives the same text and value as a small one', async (t) => {
  const json = '{"a":[1,"ü\\u0000\\ud800",null,{"b":1e3}]}';
  const small = await parser.parse(Buffer.from(json), { owner: t.title });
  const large = await parser.parse(padded(json), { owner: t.title });
  t.deepEqual(large.value, small.value);
  t.is(large.text.trim(), small.text);
});

test('what is no JSON, no UTF-8 or too deep is invalid_json, large or small', async (t) => {
  for (const json of ['{"a":}', '[1,]', '', '01', '"\n"', '\uFEFF{}', '['.repeat(2000) + ']'.repeat(2000)]) {
    t.is(await refused(parser.parse(Buffer.from(json), { owner: t.title })), 'invalid_json', json.slice(0, 20));
    t.is(await refused(parser.parse(padded(json), { owner: t.title })), 'invalid_json', json.slice(0, 20));
  }
  const broken = padded('"a"');
  broken[1] = 0xff;
  t.is(await refused(parser.parse(broken, { owner: t.title })), 'invalid_json');
});

test('objects, lists, names and strings without end are refused before anything is built of them', async (t) => {
  const texts = [
    `[${'{},'.repeat(500_000)}{}]`,
    `[${'1,'.repeat(1_000_000)}1]`,
    `{${Array.from({ length: 200_000 }, (_, i) => `"name${i}":0`).join(',')}}`,
    `[${'"s",'.repeat(200_000)}"s"]`,
  ];
  for (const text of texts) {
    t.is(await refused(parser.parse(Buffer.from(text), { owner: t.title })), 'payload_too_large', text.slice(0, 10));
  }
});

test('a text that would not fit a heap is checked all the same, and the process lives', async (t) => {
  // 30 MB of these take 1 GB once they are parsed; within JSON.parse no heap limit of a thread stops that.
  await t.notThrowsAsync(parser.check(Buffer.from(`[${'[],'.repeat(10_000_000)}[]]`), { owner: t.title }));
});

test('a large text is checked off the event loop', async (t) => {
  let isDone = false;
  const done = parser
    .check(Buffer.from(`[${'{},'.repeat(1_000_000)}{}]`), { owner: t.title })
    .then(() => (isDone = true));
  let turns = 0;
  while (!isDone) {
    turns += 1;
    await nextTurn();
  }
  await done;
  t.true(turns > 10, `the event loop went round ${turns} times meanwhile`);
});

test('who has many texts waiting does not keep another one from its turn', async (t) => {
  const one = createJsonParser({ threads: 1 });
  const order: string[] = [];
  const text = Buffer.from(`[${'{},'.repeat(200_000)}{}]`);
  const ask = async (name: string): Promise<void> => {
    await one.check(text, { owner: name });
    order.push(name);
  };
  await Promise.all([...Array.from({ length: 8 }, () => ask('many')), ask('few')]);
  t.true(order.indexOf('few') <= 2, order.join());
  await one.close();
});

test('too many waiting texts of one owner are refused as overloaded, with Retry-After', async (t) => {
  const one = createJsonParser({ threads: 1, maxWaiting: 1 });
  const text = Buffer.from(`[${'{},'.repeat(200_000)}{}]`);
  const answers = await Promise.allSettled(Array.from({ length: 4 }, () => one.check(text, { owner: t.title })));
  const errors = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as ServiceError] : []));
  t.deepEqual(errors.map(codeOf), ['overloaded', 'overloaded']);
  t.is(errors[0]?.headers['Retry-After'], '1');
  await one.close();
});

const reader = (name: string) => ({ module: new URL('json-readers.ts', import.meta.url).href, name });

test('a reader works in the thread, on what was checked, and hands typed arrays over', async (t) => {
  const bytes = Buffer.from('[0.5,1,2]');
  t.deepEqual(await parser.read(bytes, reader('numbers'), { owner: t.title, args: 2 }), Float64Array.of(1, 2, 4));
  t.is(await refused(parser.read(Buffer.from('[0.5'), reader('numbers'), { owner: t.title, args: 2 })), 'invalid_json');
});

test('what takes too long ends with its thread', async (t) => {
  const one = createJsonParser({ threads: 1, timeoutMs: 500 });
  t.is(await refused(one.read(Buffer.from('[]'), reader('forever'), { owner: t.title })), 'overloaded');
  await one.close();
});

test('a reader that breaks ends its thread, and the next text has a new one', async (t) => {
  const one = createJsonParser({ threads: 1 });
  const options = { owner: t.title };
  await t.throwsAsync(one.read(Buffer.from('[]'), reader('broken'), options), { message: 'it broke' });
  await t.notThrowsAsync(one.check(Buffer.from('[]'), options));
  await one.close();
});

const onLinux = process.platform === 'linux' ? test : test.skip;

onLinux('the threads have a lower CPU priority than the event loop that they spare', async (t) => {
  await parser.parse(padded('{}'), { owner: t.title });
  const priorities = readdirSync('/proc/self/task').map((thread) => getPriority(Number(thread)));
  t.true(priorities.includes(helperThreadNice), priorities.join(' '));
  t.not(getPriority(), helperThreadNice);
});
