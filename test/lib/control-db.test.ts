import { getPriority } from 'node:os';
import test from 'ava';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { createEmptyDatabase } from '#test/support/databases.ts';
import { memoryLog } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const pidOf = async (db: ControlDb): Promise<number> => {
  const [session] = await db.query<{ pid: number }>('select pg_backend_pid() as pid');
  return session?.pid ?? 0;
};

/** Null where it is a process of another machine. */
const priorityOf = (pid: number): number | null => {
  try {
    return getPriority(pid);
  } catch {
    return null;
  }
};

/** With all that a literal has to keep. */
const said = (mark: string): string => `{"email":"${mark}@example.com","it's":"\\\\ $$ ; drop table x -- \u{1F600}"}`;

test('settings of a transaction hold within it only, whatever is in them, and leave no text in the statistics', async (t) => {
  const database = await createEmptyDatabase();
  const db = openControlDb({ url: database.url, connections: 1, log: memoryLog().log });
  t.teardown(async () => {
    await db.close();
    await database.drop();
  });
  const settingsNow = `select current_setting('plinth.actor', true) as actor, current_setting('enable_seqscan') as seqscan`;
  for (const mark of ['first', 'second']) {
    const settings = { 'plinth.actor': said(mark), enable_seqscan: 'off' };
    const within = await db.transaction((tx) => tx.query(settingsNow), settings);
    t.deepEqual(within, [{ actor: said(mark), seqscan: 'off' }]);
    t.deepEqual(await db.query(settingsNow), [{ actor: '', seqscan: 'on' }]);
  }
  const [server] = await db.query<{ preloaded: string }>(
    `select current_setting('shared_preload_libraries') as preloaded`,
  );
  if (!server?.preloaded.includes('pg_stat_statements')) return t.log('this server keeps no statistics of statements');
  await db.query('create extension pg_stat_statements');
  const kept = await db.query<{ query: string }>(
    `select query from pg_stat_statements where query ilike '%example.com%'`,
  );
  t.deepEqual(kept, []);
});

test('sessions of a low priority yield to others, where the server is this machine’s', async (t) => {
  const database = await createEmptyDatabase();
  const open = (isLowPriority: boolean) =>
    openControlDb({ url: database.url, connections: 1, log: memoryLog().log, isLowPriority });
  const [usual, low] = [open(false), open(true)];
  t.teardown(async () => {
    await Promise.all([usual.close(), low.close()]);
    await database.drop();
  });
  const [other, yielding] = [await pidOf(usual), await pidOf(low)];
  await until(() => [10, null].includes(priorityOf(yielding)));
  t.true([0, null].includes(priorityOf(other)));
});
