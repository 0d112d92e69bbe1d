import test from 'ava';
import { createBatcher } from '#lib/batch.ts';
import { memoryLog } from '#test/support/platform.ts';
import { retryEachUntilDone } from '#workers/retry-until-done.ts';

const tooSlow = (): Error =>
  Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });

/** Work that takes too long with one of these among its items, until it is told that it may. */
const slowWith = (...slow: readonly number[]) => {
  const batches: number[][] = [];
  const blamed = new Set(slow);
  const work = async (items: readonly number[]): Promise<number[]> => {
    batches.push([...items]);
    await new Promise(setImmediate);
    if (items.some((item) => blamed.has(item))) throw tooSlow();
    return items.map((item) => item * 10);
  };
  return { batches, work, heal: () => blamed.clear() };
};

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, n) => from + n);

test('one item that takes too long holds up neither its neighbours nor those that come after it', async (t) => {
  const { batches, work, heal } = slowWith(5);
  const batcher = createBatcher(retryEachUntilDone(memoryLog().log, 'writing', work), { max: 8 });
  const added = range(1, 16).map((item) => batcher.add(item));
  const good = added.filter((_, at) => at !== 4);
  t.deepEqual(
    await Promise.all(good),
    range(1, 16)
      .filter((item) => item !== 5)
      .map((item) => item * 10),
  );
  t.true(
    batches.slice(1, 3).some((batch) => batch[0] === 9),
    'the next batch goes beside the first half',
  );
  t.is(batches.filter((batch) => batch.length > 1 && batch.includes(5)).length, 3, 'none is repeated as it was');
  heal();
  t.is(await added[4], 50);
});

test('several that take too long do not hold up the search for others', async (t) => {
  const { work, heal } = slowWith(1, 2, 7, 8);
  const batcher = createBatcher(retryEachUntilDone(memoryLog().log, 'writing', work), { max: 4 });
  const added = range(1, 8).map((item) => batcher.add(item));
  t.deepEqual(await Promise.all(added.slice(2, 6)), [30, 40, 50, 60]);
  heal();
  t.deepEqual(await Promise.all(added), [10, 20, 30, 40, 50, 60, 70, 80]);
});

test('a batch that fails otherwise is repeated whole, in its turn', async (t) => {
  const batches: number[][] = [];
  const work = async (items: readonly number[]): Promise<readonly number[]> => {
    batches.push([...items]);
    if (batches.length === 1) throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' });
    return items;
  };
  const batcher = createBatcher(retryEachUntilDone(memoryLog().log, 'writing', work), { max: 2 });
  t.deepEqual(await Promise.all([1, 2, 3].map((item) => batcher.add(item))), [1, 2, 3]);
  t.deepEqual(batches, [[1, 2], [1, 2], [3]]);
});
