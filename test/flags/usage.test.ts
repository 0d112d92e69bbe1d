import test from 'ava';
import { type Outcome, compileFlag } from '#domain/flags/compile.ts';
import type { FlagSet } from '#domain/flags/flag-sets.ts';
import { createFlagUsage } from '#domain/flags/usage.ts';
import type { Queryable } from '#lib/control-db.ts';
import { memoryLog } from '#test/support/platform.ts';
import { definition } from './scene.ts';

type Row = readonly [environmentId: string, key: string, variant: string, value: string | null, count: number];

/** Counts, with the rows of each statement that writes them. @param fails whether a statement fails */
const counting = (t: { teardown: (end: () => Promise<void>) => void }, fails: () => boolean = () => false) => {
  const statements: Row[][] = [];
  const query = (_sql: string, columns: readonly unknown[][]) => {
    if (fails()) return Promise.reject(new Error('away'));
    const [ids = [], ...others] = columns;
    statements.push(ids.map((id, at) => [id, ...others.map((column) => column[at])] as unknown as Row));
    return Promise.resolve([]);
  };
  const usage = createFlagUsage({ db: { query } as unknown as Queryable, log: memoryLog().log });
  t.teardown(usage.stop);
  return { usage, statements };
};

const setOf = (projectId: string, environmentId = projectId): FlagSet =>
  ({ projectId, environmentId }) as unknown as FlagSet;

const outcomesOf = (count: number): Outcome[] =>
  Array.from({ length: count }, (_, n) => compileFlag(`flag-${n}`, definition()).otherwise);

const countOf = (statements: readonly Row[][], environmentId: string): number =>
  statements.flat().filter(([id]) => id === environmentId).length;

test('a project with many results leaves room for those of others', async (t) => {
  const { usage, statements } = counting(t);
  const many = outcomesOf(60_000);
  usage.noteAll(setOf('greedy', 'one'), many);
  usage.noteAll(setOf('greedy', 'two'), many);
  usage.noteAll(setOf('other'), many.slice(0, 10));
  await usage.flush();
  t.is(countOf(statements, 'one') + countOf(statements, 'two'), 50_000);
  t.is(countOf(statements, 'other'), 10);
});

test('the first results of a project are counted when others have taken what there is for all', async (t) => {
  const { usage, statements } = counting(t);
  const many = outcomesOf(50_000);
  for (const project of ['a', 'b', 'c', 'd']) usage.noteAll(setOf(project), many);
  usage.noteAll(setOf('late'), many.slice(0, 2000));
  await usage.flush();
  t.is(countOf(statements, 'late'), 1000);
  usage.noteAll(setOf('late'), many.slice(0, 2000));
  await usage.flush();
  t.is(countOf(statements, 'late'), 3000, 'after they were written there is room again');
});

test('counts are written in parts, between which others have their turn, and none is lost or written twice', async (t) => {
  let statementsLeft = 2;
  const { usage, statements } = counting(t, () => {
    statementsLeft -= 1;
    return statementsLeft === -1;
  });
  const [first] = outcomesOf(1);
  for (const outcome of outcomesOf(4500)) usage.note(setOf('a'), outcome);
  for (let n = 0; n < 3; n += 1) if (first !== undefined) usage.note(setOf('b'), first);
  await t.throwsAsync(usage.flush(), { message: 'away' });
  t.is(statements.length, 2);
  let turns = 0;
  let isDone = false;
  const turn = (): void => {
    turns += 1;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  await usage.flush();
  isDone = true;
  t.true(turns >= 2, `${turns}`);
  t.deepEqual(
    statements.map(({ length }) => length),
    [1000, 1000, 1000, 1000, 501],
  );
  t.is(new Set(statements.flat().map(([id, key]) => `${id} ${key}`)).size, 4501);
  t.like(
    statements.flat().find(([id]) => id === 'b'),
    ['b', 'flag-0', 'on', 'true', 3],
  );
});

test('a large value is not written down to see that it is too long', async (t) => {
  const { usage, statements } = counting(t);
  const noted = (value: unknown): void =>
    usage.note(setOf('a'), compileFlag('flag', definition({ flag_type: 'json', value })).otherwise);
  const refuses = {
    toJSON: () => {
      throw new Error('the value was written');
    },
  };
  noted({ deep: [...Array.from({ length: 300 }, () => 1), refuses] });
  await usage.flush();
  noted({ text: 'x'.repeat(300), refuses });
  await usage.flush();
  noted({ short: [1, null, 'x'] });
  await usage.flush();
  t.deepEqual(
    statements.flat().map(([, , , value]) => value),
    [null, null, '{"short":[1,null,"x"]}'],
  );
});
