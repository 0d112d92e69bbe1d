import { setImmediate as nextTurn } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import { createSearchLimit } from '#lib/search-limit.ts';

const openScene = (t: ExecutionContext) => {
  const [logs, jobs] = [createSearchLimit('logs'), createSearchLimit('jobs')];
  const running: { readonly name: string; readonly end: () => void }[] = [];
  const all: Promise<void>[] = [];
  t.teardown(async () => {
    for (let one = running.pop(); one; one = running.pop()) {
      one.end();
      await nextTurn();
    }
    await Promise.all(all);
  });
  const search = async (name: string, limit = logs): Promise<void> => {
    const began = limit(name, async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      running.push({ name, end: resolve });
      await promise;
    });
    all.push(began.catch(() => undefined));
    await nextTurn();
    await Promise.race([began, nextTurn()]);
  };
  const names = (): string[] => running.map(({ name }) => name);
  const endFirst = async (): Promise<void> => {
    running.shift()?.end();
    await nextTurn();
  };
  return { search, jobs, names, endFirst };
};

test.serial('a third search of a project is refused, and of another kind waits', async (t) => {
  const { search, jobs, names, endFirst } = openScene(t);
  await search('a');
  await search('a');
  await t.throwsAsync(search('a'), { code: 'rate_limited' });
  await search('a', jobs);
  t.deepEqual(names(), ['a', 'a'], 'a project has two places, whatever it searches');
  await endFirst();
  t.deepEqual(names(), ['a', 'a']);
});

test.serial('somebody with many projects does not take all places for long', async (t) => {
  const { search, names, endFirst } = openScene(t);
  for (const name of ['a', 'a', 'b', 'b', 'c', 'c', 'd']) await search(name);
  t.deepEqual(names(), ['a', 'a', 'b', 'b'], 'four run at a time');
  await endFirst();
  await endFirst();
  t.deepEqual(names(), ['b', 'b', 'c', 'd'], 'who has none goes first');
});
