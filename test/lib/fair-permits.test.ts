import test from 'ava';
import { createFairPermits } from '#lib/fair-permits.ts';

const long = 60_000;
const refusal = (): Error => new Error('no permit');

const permitsOf = (options: { total: number; each: number; maxWaiting?: number; waitMs?: number }) => {
  const permits = createFairPermits({ maxWaiting: 100, waitMs: long, refusal, ...options });
  const got: string[] = [];
  const ask = async (group: string): Promise<void> => {
    await permits.acquire(group);
    got.push(group);
  };
  return { ...permits, ask, got };
};

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a group has so many and no more, and the others have theirs', async (t) => {
  const { ask, got, release } = permitsOf({ total: 5, each: 2 });
  const all = ['a', 'a', 'a', 'a', 'b', 'b', 'c'].map(ask);
  await settle();
  t.deepEqual(got, ['a', 'a', 'b', 'b', 'c']);
  release('a');
  release('a');
  await Promise.all(all);
  t.deepEqual(got.slice(5), ['a', 'a']);
});

test('a permit that is given back goes to the group that holds the fewest', async (t) => {
  const { ask, got, release } = permitsOf({ total: 4, each: 3 });
  const all = ['a', 'a', 'a', 'b', 'b', 'b', 'c'].map(ask);
  await settle();
  t.deepEqual(got, ['a', 'a', 'a', 'b']);
  release('a');
  await settle();
  t.is(got[4], 'c');
  release('a');
  await settle();
  t.is(got[5], 'b');
  release('c');
  await Promise.all(all);
  t.is(got.length, 7);
});

test('groups that hold the same take turns', async (t) => {
  const { ask, got, release } = permitsOf({ total: 1, each: 1 });
  const all = ['a', 'a', 'a', 'b', 'b', 'c'].map(ask);
  for (let i = 0; i < 6; i += 1) {
    await settle();
    release(got[i] ?? '');
  }
  await Promise.all(all);
  t.deepEqual(got, ['a', 'b', 'c', 'a', 'b', 'a']);
});

test('who waits too long is refused, and so is who finds too many of its group waiting', async (t) => {
  const short = permitsOf({ total: 1, each: 1, waitMs: 1 });
  await short.ask('a');
  await t.throwsAsync(short.ask('b'), { message: 'no permit' });
  short.release('a');
  await short.ask('b');
  const full = permitsOf({ total: 2, each: 1, maxWaiting: 1 });
  const all = ['a', 'a', 'b'].map(full.ask);
  await t.throwsAsync(full.ask('a'), { message: 'no permit' });
  full.release('a');
  await Promise.all(all);
  t.deepEqual(full.got, ['a', 'b', 'a']);
});
