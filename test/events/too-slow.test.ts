import test from 'ava';
import { takeEvents } from '#domain/events/outbox.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';
import { usePlatform } from '#test/support/platform.ts';
import { keepEventsOf } from '#test/support/subscriber.ts';
import { projectWith } from '../database/limits-scene.ts';

const platform = usePlatform(test);

const tooSlow = (): Error =>
  Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });

/** The control database, which takes too long with each of these rows; answers how many events it was asked to keep. */
const slowWith = (...rows: readonly string[]): { readonly db: Queryable; readonly requested: number[] } => {
  const requested: number[] = [];
  const query: Queryable['query'] = (sql, values = [], name?: string) => {
    if (name !== 'keep-table-events') return platform().db.query(sql, values, name);
    requested.push((values[0] as readonly string[]).length);
    const data = String(values[3]);
    return rows.some((row) => data.includes(row)) ? Promise.reject(tooSlow()) : platform().db.query(sql, values, name);
  };
  return { db: { query }, requested };
};

const scene = async (count: number) => {
  const project: TestProject = await projectWith(platform());
  await keepEventsOf(platform().db, project.id);
  const inDatabase = <T>(sql: string): Promise<T[]> =>
    asAdmin(project.dbName, async (client) => (await client.query(sql)).rows as T[]);
  await inDatabase(
    `insert into plinth.outbox (table_name, op, row)
     select 't', 'INSERT', '{"n":"' || n || '."}' from generate_series(1, ${count}) as n`,
  );
  return {
    take: (db: Queryable) =>
      asAdmin(project.dbName, (client) =>
        takeEvents({ client, db, projectId: project.id, onSetAside: () => undefined }),
      ),
    left: async () => (await inDatabase<{ row: string }>('select row from plinth.outbox')).map(({ row }) => row),
    setAside: () => inDatabase('select from plinth.outbox_failed'),
    kept: async () =>
      (await platform().db.query('select from outbox_events where project_id = $1', [project.id])).length,
  };
};

test('an event that takes too long to be kept holds up no others, and waits', async (t) => {
  const { take, left, setAside, kept } = await scene(100);
  const poison = '{"n":"13."}';
  const { db, requested } = slowWith(poison);
  t.is(await take(db), 99);
  t.deepEqual(await left(), [poison]);
  t.is(await kept(), 99);
  t.deepEqual(requested.slice(0, 4), [100, 50, 25, 13], 'halved, and not repeated as it was');
  await t.throwsAsync(take(db), { message: /timeout/ });
  t.deepEqual(await setAside(), []);
  t.is(await take(platform().db), 1);
  t.deepEqual(await left(), []);
});

test('where every event takes too long the database is left alone after a few', async (t) => {
  const { take, left, kept } = await scene(100);
  const { db, requested } = slowWith('{');
  await t.throwsAsync(take(db), { message: /timeout/ });
  t.true(requested.length < 30, `${requested.length} questions`);
  t.is(await kept(), 0);
  t.is((await left()).length, 100);
});
