import test from 'ava';
import { createFailureDetector } from '#workers/shard-leader/heartbeat.ts';

const beats = (...entries: [string, string][]): Map<string, string> => new Map(entries);

/** A second at a time: `own` is heard with a new beat each time, the other with that beat. */
const listen = (
  detector: ReturnType<typeof createFailureDetector>,
  from: number,
  seconds: number,
  other: string | null,
): number => {
  for (let i = 0; i < seconds; i += 1) {
    const received: [string, string][] = [['own', String(from + i)]];
    detector.observe(
      beats(...received, ...(other === null ? [] : [['other', other] as [string, string]])),
      (from + i) * 1000,
    );
  }
  return from + seconds;
};

test('a worker that is silent for 8 s, while others are heard, is dead', (t) => {
  const detector = createFailureDetector();
  const then = listen(detector, 0, 8, 'same');
  t.false(detector.isDead('other', 7000));
  listen(detector, then, 2, 'same');
  t.true(detector.isDead('other', 9000));
  t.false(detector.isDead('own', 9000));
  t.deepEqual(detector.alive(9000), ['own']);
});

test('a time in which nothing could be heard counts against nobody', (t) => {
  const detector = createFailureDetector();
  listen(detector, 0, 2, 'before');
  // Redis was away for 30 s; the first beats after it are the old ones.
  detector.observe(beats(['own', '32'], ['other', 'before']), 32_000);
  t.false(detector.isDead('other', 32_000));
  listen(detector, 33, 3, 'after');
  t.false(detector.isDead('other', 35_000));
});

test('who has not listened for a while judges nobody', (t) => {
  const detector = createFailureDetector();
  listen(detector, 0, 12, 'same');
  t.true(detector.isDead('other', 11_000));
  t.false(detector.isDead('other', 15_000));
});

test('a worker that was never heard is watched from the first question on', (t) => {
  const detector = createFailureDetector();
  listen(detector, 0, 20, null);
  t.false(detector.isDead('gone', 19_000));
  listen(detector, 20, 10, null);
  t.true(detector.isDead('gone', 29_000));
});
