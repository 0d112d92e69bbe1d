import test from 'ava';
import { watchSilence } from '#workers/keeper/silence.ts';

const beats = (...entries: [string, string][]): Map<string, string> => new Map(entries);

/** A second at a time: `own` is heard with a new beat each time, the other with that beat. */
const listen = (
  silence: ReturnType<typeof watchSilence>,
  from: number,
  seconds: number,
  other: string | null,
): number => {
  for (let i = 0; i < seconds; i += 1) {
    const heard: [string, string][] = [['own', String(from + i)]];
    silence.observe(
      beats(...heard, ...(other === null ? [] : [['other', other] as [string, string]])),
      (from + i) * 1000,
    );
  }
  return from + seconds;
};

test('a worker that is silent for 8 s, while others are heard, is dead', (t) => {
  const silence = watchSilence();
  const then = listen(silence, 0, 8, 'same');
  t.false(silence.isDead('other', 7000));
  listen(silence, then, 2, 'same');
  t.true(silence.isDead('other', 9000));
  t.false(silence.isDead('own', 9000));
  t.deepEqual(silence.alive(9000), ['own']);
});

test('a time in which nothing could be heard counts against nobody', (t) => {
  const silence = watchSilence();
  listen(silence, 0, 2, 'before');
  // Redis was away for 30 s; the first beats after it are the old ones.
  silence.observe(beats(['own', '32'], ['other', 'before']), 32_000);
  t.false(silence.isDead('other', 32_000));
  listen(silence, 33, 3, 'after');
  t.false(silence.isDead('other', 35_000));
});

test('who has not listened for a while judges nobody', (t) => {
  const silence = watchSilence();
  listen(silence, 0, 12, 'same');
  t.true(silence.isDead('other', 11_000));
  t.false(silence.isDead('other', 15_000));
});

test('a worker that was never heard is watched from the first question on', (t) => {
  const silence = watchSilence();
  listen(silence, 0, 20, null);
  t.false(silence.isDead('gone', 19_000));
  listen(silence, 20, 10, null);
  t.true(silence.isDead('gone', 29_000));
});
