import test from 'ava';
import type { QueryResultRow } from 'pg';
import { createHistory } from '#domain/ops/charts.ts';
import { countsOf, jobTypes, oldestWaits, runningJobs } from '#domain/ops/ops.ts';
import { type ControlDb, type Queryable, openControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { createTestDatabase } from '#test/support/databases.ts';
import { memoryLog } from '#test/support/platform.ts';
import { createJobGauges } from '../../api/metrics.ts';

/** More would read the table of jobs, of which a page holds some 50. */
const rows = 40_000;

interface Explained extends QueryResultRow {
  readonly 'QUERY PLAN': readonly [{ readonly Plan: Readonly<Record<string, number>> }];
}

/** Explains what it is asked, and adds up the buffers that the statements read. */
const explaining = (db: ControlDb) => {
  const buffers: number[] = [];
  const queryable: Queryable = {
    query: async (sql, values) => {
      const [explained] = await db.query<Explained>(`explain (analyze, buffers, format json) ${sql}`, values);
      const plan = explained?.['QUERY PLAN'][0].Plan;
      buffers.push((plan?.['Shared Hit Blocks'] ?? 0) + (plan?.['Shared Read Blocks'] ?? 0));
      return [];
    },
  };
  return { queryable, total: () => buffers.reduce((sum, one) => sum + one, 0) };
};

/** A flood of one type that waits, of which half were tried before, and as many jobs that ended. */
const openFlooded = async (): Promise<{ db: ControlDb; close: () => Promise<void> }> => {
  const database = await createTestDatabase();
  const db = openControlDb({ url: database.url, connections: 1, log: memoryLog().log });
  await db.query(
    `insert into jobs (id, project_id, type, status, data, request_id, attempt, queued_at, next_run_at, started_at, finished_at)
     select uuid_v7(), $1, 'function.invoke', case when n % 2 = 0 then 'queued' else 'succeeded' end, repeat('x', 100), 'r',
       n / 2 % 2, now() - n * interval '1 s', case when n % 8 = 2 then now() end, null,
       case when n % 2 = 1 then now() - interval '2 hours' end
     from generate_series(1, $2) as n`,
    [newId(), rows],
  );
  await db.query(
    `insert into jobs (id, project_id, type, status, data, request_id, finished_at)
     select uuid_v7(), $1, 'email.send', 'dead', 'null', 'r', now() - interval '3 hours' from generate_series(1, 20)`,
    [newId()],
  );
  await db.query('vacuum analyze jobs');
  return {
    db,
    close: async () => {
      await db.close();
      await database.drop();
    },
  };
};

test('the oldest wait of each job type costs three buffers, however many jobs wait', async (t) => {
  const { db, close } = await openFlooded();
  t.teardown(close);
  const requested = explaining(db);
  await oldestWaits(requested.queryable);
  t.true(requested.total() <= 3 * jobTypes.length, `${requested.total()} buffers for ${jobTypes.length} types`);
  const [oldest] = await oldestWaits(db);
  t.is(oldest?.type, 'function.invoke');
  t.true((oldest?.seconds ?? 0) > rows - 10);
});

test('a scrape of the metrics does not read the jobs', async (t) => {
  const { db, close } = await openFlooded();
  t.teardown(close);
  const requested = explaining(db);
  const gate = { stats: () => Promise.reject(new Error('Redis is away')) };
  await createJobGauges({ db: requested.queryable, gate })();
  t.true(requested.total() <= 3 * jobTypes.length + 30, `${requested.total()} buffers`);
});

test('the queues at a glance do not read the jobs', async (t) => {
  const { db, close } = await openFlooded();
  t.teardown(close);
  // Jobs accepted within a minute are counted row by row.
  await db.query(`update jobs set id = ('00000000-0000-7000-8000' || right(id::text, 13))::uuid`);
  await db.query('vacuum analyze jobs');
  const requested = explaining(db);
  await countsOf(requested.queryable, createHistory(db));
  await runningJobs(requested.queryable);
  t.true(requested.total() <= 150, `${requested.total()} buffers`);
});
