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

test('events that come slower than the allowance grows never use it up', (t) => {
  const { watch, pass } = scene();
  for (let n = 0; n < 1000; n += 1) {
    watch.note({ steady: 19 });
    pass(100);
    t.deepEqual(watch.projects(), []);
  }
});
