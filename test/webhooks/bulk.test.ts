import test from 'ava';
import { createBulkWatch } from '#workers/webhooks/fan-out.ts';

const scene = () => {
  let at = 5000;
  const watch = createBulkWatch(() => at);
  return { watch, pass: (ms: number): void => void (at += ms) };
};

test('a project with more than 1,000 events at a stretch rests as long as each pass took', (t) => {
  const { watch, pass } = scene();
  for (let n = 0; n < 5; n += 1) {
    watch.note({ large: 200, quiet: 1 }, 40);
    t.deepEqual(watch.resting(), [], 'at full speed until then');
  }
  watch.note({ large: 200, quiet: 1 }, 40);
  t.deepEqual(watch.resting(), ['large']);
  t.is(watch.nextMs(), 40);
  pass(39);
  watch.note({ quiet: 1 }, 5);
  t.deepEqual(watch.resting(), ['large']);
  pass(1);
  t.deepEqual(watch.resting(), []);
  t.is(watch.nextMs(), undefined);
  watch.note({ large: 200 }, 60_000);
  t.is(watch.nextMs(), 1000, 'a pass that was held up is not paid for in full');
});

test('a project whose events were passed on long ago begins anew', (t) => {
  const { watch, pass } = scene();
  watch.note({ large: 1000 }, 40);
  pass(1500);
  watch.note({ large: 200 }, 40);
  t.deepEqual(watch.resting(), []);
});
