import { EventEmitter } from 'node:events';
import test from 'ava';
import { linesTo } from '#lib/log-lines.ts';
import { until } from '#test/support/until.ts';

/** As pino's destination: holds lines until a flush, and does nothing at a flush while a write is under way. */
const createStream = () => {
  const events = new EventEmitter();
  const held: string[] = [];
  const out: string[] = [];
  let isWriting = false;
  let isBlocked = false;
  let flushes = 0;
  const end = (): void => {
    isWriting = false;
    events.emit('drain');
  };
  const begin = (): void => {
    isWriting = true;
    out.push(...held.splice(0));
    if (!isBlocked) setImmediate(end);
  };
  return {
    out,
    held,
    flushes: () => flushes,
    /** A write begins and does not end. */
    block: (): void => {
      isBlocked = true;
      begin();
    },
    release: (): void => {
      isBlocked = false;
      end();
    },
    stream: {
      on: events.on.bind(events),
      write: (line: string) => held.push(line),
      flush: () => {
        flushes += 1;
        if (!isWriting) begin();
      },
      flushSync: () => out.push(...held.splice(0)),
    } as unknown as Parameters<typeof linesTo>[0],
  };
};

test('lines are written soon; then nothing is done until there are more', async (t) => {
  const { stream, out, flushes } = createStream();
  const lines = linesTo(stream, 1);
  t.is(flushes(), 0);
  for (const line of ['a', 'b', 'c']) {
    lines.write(line);
    t.true(await until(() => out.at(-1) === line));
    let last = -1;
    const isAtRest = (): boolean => {
      const same = flushes() === last;
      last = flushes();
      return same;
    };
    t.true(await until(isAtRest));
  }
  t.deepEqual(out, ['a', 'b', 'c']);
});

test('a line that comes while an earlier write takes its time is written after that', async (t) => {
  const { stream, out, held, flushes, block, release } = createStream();
  const lines = linesTo(stream, 1);
  lines.write('first');
  block();
  lines.write('second');
  const before = flushes();
  t.true(await until(() => flushes() >= before + 3), 'it goes on asking');
  t.deepEqual([out, held], [['first'], ['second']]);
  release();
  t.true(await until(() => out.length === 2));
  t.deepEqual(out, ['first', 'second']);
});

test('what is fatal is written at once', (t) => {
  const { stream, out } = createStream();
  const lines = linesTo(stream, 1);
  lines.write('last');
  lines.flushSync();
  t.deepEqual(out, ['last']);
});
