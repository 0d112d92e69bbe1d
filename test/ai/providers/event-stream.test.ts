import test from 'ava';
import { EventStream, createSseReader } from '#domain/ai/providers/event-stream.ts';

const nothing = (): void => undefined;

const open = () => {
  let paused = false;
  const exchange = {
    awaitFirst: nothing,
    started: nothing,
    release: nothing,
    stop: nothing,
    pause: () => void (paused = true),
    resume: () => void (paused = false),
  };
  const events = new EventStream(exchange, createSseReader());
  const feed = (...sizes: readonly number[]): void =>
    sizes.forEach((size) => events.sink.data(Buffer.from(`data: ${'x'.repeat(size)}\n\n`)));
  return { events, feed, isPaused: () => paused };
};

test('one big event makes the provider wait until its reader is done with it', async (t) => {
  const { events, feed, isPaused } = open();
  const requested = events.next();
  feed(200_000);
  t.true(isPaused());
  await requested;
  t.true(isPaused());
  const next = events.next();
  t.false(isPaused());
  feed(10);
  t.false(isPaused());
  t.is((await next).value?.length, 1);
});

test('what is read ahead is bounded, together with what the reader has in its hands', async (t) => {
  const { events, feed, isPaused } = open();
  feed(40_000);
  await events.next();
  feed(20_000);
  t.false(isPaused());
  feed(10_000);
  t.true(isPaused());
  t.is((await events.next()).value?.length, 2);
  t.false(isPaused());
});

test('events without data count, too', (t) => {
  const { feed, isPaused } = open();
  feed(...Array.from({ length: 300 }, () => 1));
  t.true(isPaused());
});
