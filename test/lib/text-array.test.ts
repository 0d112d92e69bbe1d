import test from 'ava';
import { openControlDb } from '#lib/control-db.ts';
import { textArray } from '#lib/text-array.ts';
import { createEmptyDatabase } from '#test/support/databases.ts';
import { memoryLog } from '#test/support/platform.ts';

test('an array of texts arrives as it was, whatever is in them, and without copies of what would be escaped', async (t) => {
  const database = await createEmptyDatabase();
  const db = openControlDb({ url: database.url, connections: 1, log: memoryLog().log });
  t.teardown(async () => {
    await db.close();
    await database.drop();
  });
  const arrived = async (values: readonly (string | null)[]): Promise<unknown> => {
    const [row] = await db.query<{ values: unknown }>('select $1::text[] as values', [textArray(values)]);
    return row?.values;
  };
  for (const values of [[], ['one'], [null], ['', '"\\{},NULL', null, 'ü\u{1F600}\u2028', '[{"a":"\\u0000"}]']])
    t.deepEqual(await arrived(values), values);
  // Half a character has no form in UTF-8.
  t.deepEqual(await arrived(['a\ud800b', 'c']), ['a\ufffdb', 'c']);
  const quotes = '"\\'.repeat(100_000);
  t.is(textArray([quotes, quotes]).length, 2 * (quotes.length + 4) + 20);
});
