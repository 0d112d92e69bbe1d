import test from 'ava';
import { type DatabaseUsage, readUsageInTurn } from '#domain/database/usage.ts';

const usage = (tables: number): DatabaseUsage => ({ tables, rows: 0, bytes: 0, fileBytes: 0 });

/** Reads that end when they are told to. */
const held = () => {
  const started: ((value: DatabaseUsage) => void)[] = [];
  return {
    started,
    read: (): Promise<DatabaseUsage> => new Promise((resolve) => started.push(resolve)),
    endAll: (): void => started.splice(0).forEach((end) => end(usage(0))),
  };
};

test.serial('who asks while a project is read shares one later read, never an earlier one', async (t) => {
  let reads = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  const read = async (): Promise<DatabaseUsage> => {
    reads += 1;
    const nth = reads;
    await promise;
    return usage(nth);
  };
  const requested = Array.from({ length: 50 }, () => readUsageInTurn('a', read));
  resolve();
  const seen = (await Promise.all(requested)).map(({ tables }) => tables);
  t.deepEqual(seen, [1, ...Array.from({ length: 49 }, () => 2)]);
  t.is(reads, 2);
  t.is((await readUsageInTurn('a', read)).tables, 3);
});

test.serial('a read that fails is not the answer of those who come later', async (t) => {
  const first = readUsageInTurn('a', () => Promise.reject(new Error('no')));
  const second = readUsageInTurn('a', () => Promise.resolve(usage(7)));
  await t.throwsAsync(first, { message: 'no' });
  t.is((await second).tables, 7);
});

test.serial('four are read at a time, and who gets no turn in 3 s is refused', async (t) => {
  const { started, read, endAll } = held();
  const requested = Array.from({ length: 4 }, (_, nth) => readUsageInTurn(`p${nth}`, read));
  await t.throwsAsync(readUsageInTurn('late', read), { message: /Too many ask for the usage/ });
  t.is(started.length, 4);
  endAll();
  await Promise.all(requested);
  t.is((await readUsageInTurn('late', () => Promise.resolve(usage(1)))).tables, 1);
});
