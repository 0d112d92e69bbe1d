import { PassThrough } from 'node:stream';
import test from 'ava';
import { until } from '#test/support/until.ts';
import { Allowance, inTurns, readWithin } from '#workers/runtimes/allowance.ts';
import { RunLog } from '#workers/runtimes/run-log.ts';
import { type LogsMessage, parseGuestMessage } from '#workers/runtimes/messages.ts';

/** Occupies the event loop for longer than a guest's messages may. */
const work = (): void => {
  const until = performance.now() + 3;
  while (performance.now() < until);
};

function* slowly(count: number, each: () => void): Generator<number> {
  for (let n = 0; n < count; n += 1) {
    work();
    each();
    yield 1;
  }
}

test('what takes little time is done at once', (t) => {
  const steps = [1, 0, 1];
  t.is(inTurns(steps.values()), 2);
});

test('other work is done between the messages of a guest that says much', async (t) => {
  const order: string[] = [];
  setImmediate(() => order.push('other work'));
  const done = inTurns(slowly(3, () => order.push('message')));
  t.is(await done, 3);
  t.is(order.indexOf('other work'), 1);
  t.is(order.length, 4);
});

test('nothing more is read of a guest while its last messages are dealt with', async (t) => {
  const stream = new PassThrough();
  const order: string[] = [];
  readWithin(stream, new Allowance(), (chunk) => inTurns(slowly(2, () => order.push(String(chunk)))));
  for (const chunk of ['a', 'b', 'c']) stream.write(chunk);
  stream.end();
  await until(() => order.length === 6);
  t.is(order.join(''), 'aabbcc');
});

test('a frame of many lines is dealt with in steps, in order and within the limit of a log', (t) => {
  const received: string[] = [];
  const log = new RunLog(({ message }) => received.push(message));
  const now = Date.now();
  const lines = Array.from({ length: 10_000 }, (_, n): LogsMessage['lines'][number] => [
    now,
    'info',
    n < 3 ? `${n}` : '',
  ]);
  const steps = log.add({ type: 'logs', run: 1, lines, truncated: false });
  let count = 0;
  for (let seen = 0; steps.next().done !== true; seen = received.length) {
    count += 1;
    t.true(received.length - seen <= 256);
  }
  t.true(count > 30);
  t.deepEqual(received.slice(0, 4), ['0', '1', '2', '']);
  t.is(received.length, (256 * 1024) / 32 - 1);
  t.true(log.truncated);
  t.deepEqual(new Set(log.lines.map(({ ts }) => ts)), new Set([new Date(now).toISOString()]));
});

test('a frame of log lines that has not the shape of ours is refused', (t) => {
  const right = { type: 'logs', run: 1, lines: [[1, 'info', 'a line']], truncated: false };
  t.deepEqual(parseGuestMessage(right), right as unknown as LogsMessage);
  const wrong = [
    { ...right, run: '1' },
    { ...right, truncated: 'no' },
    { ...right, lines: 'a line' },
    { ...right, lines: ['a line'] },
    { ...right, lines: [['1', 'info', 'a line']] },
    { ...right, lines: [[1, 'loud', 'a line']] },
    { ...right, lines: [[1, 'info', 7]] },
    { ...right, lines: [[1, 'info', 'a line', 7]] },
    { ...right, lines: [[1, 'info', 'a line', '{}', 'more']] },
    null,
  ];
  for (const message of wrong) t.throws(() => parseGuestMessage(message), undefined, JSON.stringify(message));
});
