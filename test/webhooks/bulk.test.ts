import test from 'ava';
import { createBulkWatch } from '#workers/webhooks/fan-out.ts';

const scene = () => {
  let at = 5000;
  const watch = createBulkWatch(() => at);
  return { watch, pass: (ms: number): void => void (at += ms) };
};

test('a project has 400 events at once at the usual priority, and 200 a second', (t) => {
  const { watch, pass } = scene();
  watch.note({ large: 399, quiet: 1 });
  t.deepEqual(watch.projects(), []);
  watch.note({ large: 1, quiet: 1 });
  t.deepEqual(watch.projects(), ['large']);
  pass(10);
  t.deepEqual(watch.projects(), [], 'it has two events again');
  watch.note({ large: 102 });
  pass(499);
  t.deepEqual(watch.projects(), ['large']);
  pass(2);
  t.deepEqual(watch.projects(), []);
});

test('a flood is over a second after its last events, however many there were', (t) => {
  const { watch, pass } = scene();
  for (let n = 0; n < 100; n += 1) watch.note({ large: 200 });
  pass(999);
  t.deepEqual(watch.projects(), ['large']);
  pass(2);
  t.deepEqual(watch.projects(), []);
});

test('comparing events with steps that wait counts, and is not forgotten as soon', (t) => {
  const { watch, pass } = scene();
  watch.note({ waits: 1, quiet: 1 }, { waits: 100_000, quiet: 100 });
  t.deepEqual(watch.projects(), ['waits']);
  // Each 20 comparisons are an event: 4,601 are to be made good.
  watch.note({ waits: 1 });
  pass(22_000);
  t.deepEqual(watch.projects(), ['waits'], 'its next event shortens nothing');
  pass(1100);
  t.deepEqual(watch.projects(), []);
  watch.note({ waits: 1 }, { waits: 1_000_000_000 });
  pass(30_100);
  t.deepEqual(watch.projects(), [], 'half a minute at most');
});

test('events that come slower than the allowance grows never use it up', (t) => {
  const { watch, pass } = scene();
  for (let n = 0; n < 1000; n += 1) {
    watch.note({ steady: 19 });
    pass(100);
    t.deepEqual(watch.projects(), []);
  }
});
