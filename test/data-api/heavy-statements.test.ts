import test from 'ava';
import { maxAtOnce, isHeavy, noteCourse } from '#domain/data-api/effort.ts';
import type { DataCaller, DataRun } from '#domain/data-api/data-api.ts';
import { createDataDb } from '#domain/data-api/postgres-db.ts';
import { CallerGone } from '#domain/data-api/errors.ts';
import type { TenantDb } from '#lib/tenant-db.ts';
import { until } from '#test/support/until.ts';
import { tenantDbOf, useDataScene } from './scene.ts';

const scene = useDataScene(test);

const statement = (text: string, params: readonly string[] = []) => ({ text, params });
const rowOf = (length: number) => [['x'.repeat(length)]];

test('a statement is heavy after it took half a second, and until it takes a fifth of one', (t) => {
  const sql = statement('select slow');
  t.false(isHeavy('a', sql));
  noteCourse('a', sql, { ms: 499, rows: rowOf(1) });
  t.false(isHeavy('a', sql));
  noteCourse('a', sql, { ms: 500, rows: rowOf(1) });
  t.true(isHeavy('a', sql));
  t.false(isHeavy('a', statement('select quick')));
  t.false(isHeavy('b', sql));
  noteCourse('a', sql, { ms: 200, rows: rowOf(1) });
  t.true(isHeavy('a', sql));
  noteCourse('a', sql, { ms: 199, rows: rowOf(1) });
  t.false(isHeavy('a', sql));
});

test('a statement is heavy after it answered 4 MB, and until it answers less than 2 MB', (t) => {
  const sql = statement('select long');
  const mib = 1024 * 1024;
  noteCourse('a', sql, { ms: 1, rows: [...rowOf(2 * mib), ...rowOf(2 * mib)] });
  t.true(isHeavy('a', sql));
  noteCourse('a', sql, { ms: 1, rows: rowOf(2 * mib) });
  t.true(isHeavy('a', sql));
  noteCourse('a', sql, { ms: 1, rows: rowOf(mib) });
  t.false(isHeavy('a', sql));
});

test('a failure makes a statement heavy when it took long, and never light', (t) => {
  const sql = statement('select failing');
  noteCourse('a', sql, { ms: 3000, rows: null });
  t.true(isHeavy('a', sql));
  noteCourse('a', sql, { ms: 1, rows: null });
  t.true(isHeavy('a', sql));
});

test('a statement with a quarter of a megabyte of parameters is heavy from the start', (t) => {
  t.false(isHeavy('a', statement('insert', ['x'.repeat(262_143)])));
  t.true(isHeavy('a', statement('insert', ['x', 'x'.repeat(262_143)])));
});

/** At least a second of a processor, however many others want it. */
const burning = `(select count(md5(n::text)) from generate_series(1, 3000000) n)::text`;

/** Counts which connections the statements take. */
const opened = () => {
  const tenantDb = tenantDbOf(scene().platform);
  let [usual, low, running, maxRunning] = [0, 0, 0, 0];
  const use: TenantDb['use'] = (...args) => {
    usual += 1;
    return tenantDb.use(...args);
  };
  const useAtLowPriority: TenantDb['use'] = async (projectId, role, work) => {
    low += 1;
    running += 1;
    maxRunning = Math.max(maxRunning, running);
    try {
      return await tenantDb.useAtLowPriority(projectId, role, work);
    } finally {
      running -= 1;
    }
  };
  const data = createDataDb({
    tenantDb: { use, useAtLowPriority, lease: tenantDb.lease, endSession: () => Promise.resolve() },
    schemaVersion: () => '1',
  });
  const caller: DataCaller = { projectId: scene().project.id, role: 'service', claims: '{}' };
  return {
    rows: (text: string, signal: DataRun['signal'] = new AbortController().signal) =>
      data.rows(caller, { mode: 'read', signal }, statement(text)),
    counts: () => ({ usual, low }),
    maxRunning: () => maxRunning,
    close: tenantDb.close,
  };
};

test.serial('what took long runs again at a low priority, as many at a time as the console lets', async (t) => {
  const db = opened();
  const burn = `select 'counted', ${burning}`;
  await db.rows(burn);
  t.deepEqual(db.counts(), { usual: 1, low: 0 });
  const answers = await Promise.all([1, 2, 3].map(() => db.rows(burn)));
  t.deepEqual(
    answers.map(([row]) => row?.[0]),
    ['counted', 'counted', 'counted'],
  );
  t.deepEqual(db.counts(), { usual: 1, low: 3 });
  t.is(db.maxRunning(), maxAtOnce);
  await db.rows(`select 'quick'`);
  t.deepEqual(db.counts(), { usual: 2, low: 3 });
  await db.close();
});

test.serial('a caller that goes away while it waits in line is told so, and takes no connection', async (t) => {
  const db = opened();
  const burn = `select 'held', ${burning}`;
  await db.rows(burn);
  const holding = Array.from({ length: maxAtOnce }, () => db.rows(burn));
  await until(() => db.counts().low === maxAtOnce);
  const leaving = new AbortController();
  const waits = db.rows(burn, leaving.signal);
  leaving.abort();
  await t.throwsAsync(waits, { instanceOf: CallerGone });
  // On a busy machine they may end by the time-out of their role.
  await Promise.allSettled(holding);
  t.is(db.counts().low, maxAtOnce);
  await db.close();
});
