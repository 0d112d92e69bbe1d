import test from 'ava';
import { createBatcher, splitRefused } from '#lib/batch.ts';

/** A bulk call that notes what it was given and ends when it is told to. */
const gated = () => {
  const batches: number[][] = [];
  const gates: PromiseWithResolvers<void>[] = [];
  const flush = async (items: readonly number[]): Promise<number[]> => {
    batches.push([...items]);
    const gate = Promise.withResolvers<void>();
    gates.push(gate);
    await gate.promise;
    return items.map((item) => item * 10);
  };
  const started = async (count: number): Promise<void> => {
    while (gates.length < count) await new Promise(setImmediate);
  };
  return { batches, gates, flush, started };
};

test('each item gets its own result, and calls of one turn go out together', async (t) => {
  const batches: (readonly number[])[] = [];
  const batcher = createBatcher(async (items: readonly number[]) => {
    batches.push(items);
    return items.map((item) => `result ${item}`);
  });
  const results = await Promise.all([3, 1, 2].map((item) => batcher.add(item)));
  t.deepEqual(results, ['result 3', 'result 1', 'result 2']);
  t.deepEqual(batches, [[3, 1, 2]]);
});

test('what arrives while a bulk call runs goes out in the next, in order, never beside it', async (t) => {
  const { batches, gates, flush, started } = gated();
  const batcher = createBatcher(flush);
  const first = batcher.add(1);
  await started(1);
  const later = [2, 3, 4].map((item) => batcher.add(item));
  await new Promise(setImmediate);
  t.deepEqual(batches, [[1]]);
  gates[0]?.resolve();
  t.is(await first, 10);
  await started(2);
  gates[1]?.resolve();
  t.deepEqual(await Promise.all(later), [20, 30, 40]);
  t.deepEqual(batches, [[1], [2, 3, 4]]);
});

test('no bulk call holds more than its bound', async (t) => {
  const sizes: number[] = [];
  const batcher = createBatcher(
    async (items: readonly number[]) => {
      sizes.push(items.length);
      return [...items];
    },
    { max: 10 },
  );
  const items = Array.from({ length: 35 }, (_, i) => i);
  t.deepEqual(await Promise.all(items.map((item) => batcher.add(item))), items);
  t.deepEqual(sizes, [10, 10, 10, 5]);
});

test('with a rest, the first goes at once, and what comes during the rest shares the next bulk call', async (t) => {
  const batches: (readonly number[])[] = [];
  const batcher = createBatcher(
    async (items: readonly number[]) => {
      batches.push(items);
      return [...items];
    },
    { restMs: 300 },
  );
  t.is(await batcher.add(1), 1);
  const later = [];
  for (const item of [2, 3, 4]) {
    later.push(batcher.add(item));
    await new Promise(setImmediate);
  }
  t.deepEqual(await Promise.all(later), [2, 3, 4]);
  t.deepEqual(batches, [[1], [2, 3, 4]]);
});

test('a bulk call that lingers takes along what comes until it goes, the first of a silence too', async (t) => {
  const batches: (readonly number[])[] = [];
  const batcher = createBatcher(
    async (items: readonly number[]) => {
      batches.push(items);
      return [...items];
    },
    { lingerMs: 300 },
  );
  const added = [];
  for (const item of [1, 2, 3]) {
    added.push(batcher.add(item));
    await new Promise(setImmediate);
  }
  t.deepEqual(await Promise.all(added), [1, 2, 3]);
  t.deepEqual(batches, [[1, 2, 3]]);
});

test('an eager one sends the first at once, and what comes while that is under way together', async (t) => {
  const batches: (readonly number[])[] = [];
  const batcher = createBatcher(
    async (items: readonly number[]) => {
      batches.push(items);
      await new Promise(setImmediate);
      return [...items];
    },
    { eager: true },
  );
  const added = [batcher.add(1)];
  t.deepEqual(batches, [[1]]);
  added.push(batcher.add(2), batcher.add(3));
  t.deepEqual(await Promise.all(added), [1, 2, 3]);
  t.deepEqual(batches, [[1], [2, 3]]);
});

test('a bulk call that fails fails its own items only', async (t) => {
  let calls = 0;
  const batcher = createBatcher(
    async (items: readonly number[]) => {
      calls += 1;
      if (calls === 2) throw new Error('the second one fails');
      return [...items];
    },
    { max: 2 },
  );
  const settled = await Promise.allSettled([1, 2, 3, 4, 5].map((item) => batcher.add(item)));
  t.deepEqual(
    settled.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'rejected', 'fulfilled'],
  );
  t.is(await batcher.add(6), 6);
});

test('a bulk call that throws at once is a failure like any other', async (t) => {
  const batcher = createBatcher<number, number>(() => {
    throw new Error('at once');
  });
  await t.throwsAsync(batcher.add(1), { message: 'at once' });
  await t.throwsAsync(batcher.add(2), { message: 'at once' });
});

test('idle waits for all that is waiting or under way, also for what came meanwhile', async (t) => {
  const { batches, gates, flush, started } = gated();
  const batcher = createBatcher(flush);
  await batcher.idle();
  const first = batcher.add(1);
  await started(1);
  // One turn after the first result: the batcher has just found nothing left, and idle() has not heard of it yet.
  const second = (async () => {
    await (async () => first)();
    return batcher.add(2);
  })();
  let idle = false;
  const waiting = (async () => {
    await batcher.idle();
    idle = true;
  })();
  gates[0]?.resolve();
  await started(2);
  t.false(idle);
  gates[1]?.resolve();
  t.deepEqual(await Promise.all([first, second]), [10, 20]);
  await waiting;
  t.deepEqual(batches, [[1], [2]]);
});

test('a bulk call carries items up to a size together, and one that is larger alone', async (t) => {
  const batches: (readonly number[])[] = [];
  const flush = async (items: readonly number[]): Promise<number[]> => {
    batches.push(items);
    return [...items];
  };
  const batcher = createBatcher(flush, { max: 3, maxSize: 10, sizeOf: (item) => item });
  const items = [4, 6, 1, 20, 9, 2, 1, 1, 1, 1];
  t.deepEqual(await Promise.all(items.map((item) => batcher.add(item))), items);
  t.deepEqual(batches, [[4, 6], [1], [20], [9], [2, 1, 1], [1, 1]]);
});

/** A bulk call that refuses a batch with one of these in it, and notes the batches. */
const refusing = (...bad: readonly number[]) => {
  const batches: number[][] = [];
  const call = async (items: readonly number[]): Promise<number[]> => {
    batches.push([...items]);
    if (items.some((item) => bad.includes(item))) throw new Error('invalid byte sequence');
    return items.map((item) => item * 10);
  };
  return { batches, call };
};

test('items that are refused are found by halves, and the others get their results in order', async (t) => {
  const { batches, call } = refusing(2, 7);
  const refused: string[] = [];
  const split = splitRefused(call, async (item, error) => {
    refused.push(`${item}: ${String(error)}`);
    return -item;
  });
  t.deepEqual(await split([1, 2, 3, 4, 5, 6, 7, 8]), [10, -2, 30, 40, 50, 60, -7, 80]);
  t.deepEqual(refused, ['2: Error: invalid byte sequence', '7: Error: invalid byte sequence']);
  t.is(batches.length, 11, 'the whole, its halves, and four smaller parts for each of the two');
});

test('a batch is not split when its failure is of the dependency', async (t) => {
  let calls = 0;
  const split = splitRefused(
    async (items: readonly number[]): Promise<number[]> => {
      calls += 1;
      throw Object.assign(new Error(`${items.length} were not written`), { code: 'ECONNREFUSED' });
    },
    async (): Promise<number> => {
      t.fail('no item is refused');
      return 0;
    },
  );
  await t.throwsAsync(split([1, 2, 3]), { message: '3 were not written' });
  t.is(calls, 1);
});
