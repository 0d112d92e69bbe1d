import test from 'ava';
import { createFlagSets } from '#domain/flags/flag-sets.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { memoryLog } from '#test/support/platform.ts';

/** A database whose answers come at once, so that nothing but the code itself gives way to others. */
const databaseOf = (segments: readonly object[]): ControlDb => {
  const answers: readonly (readonly [RegExp, readonly object[]])[] = [
    [/from flag_sets/, [{ version: 1, forgotten: 0 }]],
    [/from flag_environments/, [{ id: '018f0000-0000-7000-8000-000000000000', name: 'production', version: 1 }]],
    [/from flag_segments/, segments],
  ];
  const query = (sql: string) => Promise.resolve(answers.find(([form]) => form.test(sql))?.[1] ?? []);
  const transaction = (work: (tx: Queryable) => Promise<unknown>) => work({ query } as unknown as Queryable);
  return { query, transaction } as unknown as ControlDb;
};

test('compiling the conditions of many segments gives way to others', async (t) => {
  const values = Array.from({ length: 20_000 }, (_, n) => `value-${n}`);
  const conditions = JSON.stringify([{ attribute: 'a', operator: 'in', values }]);
  const segments = Array.from({ length: 50 }, (_, n) => ({ key: `s${n}`, conditions, keys: null }));
  const sets = createFlagSets({
    db: databaseOf(segments),
    log: memoryLog().log,
    isSubscribed: () => true,
    perProject: 1e9,
    perProcess: 1e9,
  });
  t.teardown(() => sets.stop());
  let [turns, isDone] = [0, false];
  const turn = (): void => {
    turns += 1;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  const set = await sets.get({ id: 'project', org_id: 'organization' }, 'production');
  isDone = true;
  t.is(set?.segments.size, 50);
  t.true(turns > 1, `${turns}`);
});
