import test from 'ava';
import { createPermits } from '#lib/permits.ts';

const refusal = (): Error => new Error('no permit in time');
const long = 60_000;

/** Whether a promise has settled by the next turn of the event loop. */
const settled = async (promise: Promise<unknown>): Promise<boolean> => {
  const open = Symbol('open');
  const later = new Promise((resolve) => setImmediate(resolve, open));
  return (await Promise.race([promise, later])) !== open;
};

test('permits are given until none is left', async (t) => {
  const permits = createPermits(2, long, refusal);
  await permits.acquire();
  await permits.acquire();
  const third = permits.acquire();
  t.false(await settled(third));
  permits.release();
  await third;
  t.pass();
});

test('those who wait are served in order', async (t) => {
  const permits = createPermits(1, long, refusal);
  await permits.acquire();
  const served: number[] = [];
  const waiting = [1, 2, 3].map((n) => permits.acquire().then(() => served.push(n)));
  for (const one of waiting) {
    permits.release();
    await one;
  }
  t.deepEqual(served, [1, 2, 3]);
});

test('who gets no permit in time is refused, and no permit is lost with him', async (t) => {
  const permits = createPermits(1, 1, refusal);
  await permits.acquire();
  await t.throwsAsync(permits.acquire(), { message: 'no permit in time' });
  permits.release();
  await permits.acquire();
  await t.throwsAsync(permits.acquire(), { message: 'no permit in time' });
});

test('a permit given back while nobody waits is there for the next', async (t) => {
  const permits = createPermits(1, long, refusal);
  for (let i = 0; i < 3; i += 1) {
    await permits.acquire();
    permits.release();
  }
  await permits.acquire();
  t.false(await settled(permits.acquire()));
});

test('under a crowd no more than the number of permits is ever out', async (t) => {
  const permits = createPermits(3, long, refusal);
  let [out, max] = [0, 0];
  const work = async (): Promise<void> => {
    await permits.acquire();
    out += 1;
    max = Math.max(max, out);
    await new Promise(setImmediate);
    out -= 1;
    permits.release();
  };
  await Promise.all(Array.from({ length: 100 }, work));
  t.is(max, 3);
  t.is(out, 0);
});
