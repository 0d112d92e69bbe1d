import test from 'ava';
import { createJobGauges } from '#api/metrics.ts';
import { oldestWaits } from '#domain/ops/ops.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { JobTypeStats } from '#queues/gate/types.ts';
import { type TestDatabase, createTestDatabase } from '#test/support/databases.ts';
import { memoryLog } from '#test/support/platform.ts';

let database: TestDatabase;
let db: ControlDb;

test.before(async () => {
  database = await createTestDatabase();
  db = openControlDb({ url: database.url, connections: 2, log: memoryLog().log });
});

test.after.always(async () => {
  await db.close();
  await database.drop();
});

const stats = (type: string): JobTypeStats => ({
  type,
  open: true,
  paused: false,
  waiting: 7,
  leased: 3,
  window: 5,
  slots: 4,
  workers: [{ id: 'w', name: 'worker', slots: 4, running: 3, startedAt: 0 }],
});

const gate = { stats: (type: string): Promise<JobTypeStats> => Promise.resolve(stats(type)) };
const noGate = { stats: () => Promise.reject(new Error('Redis is away')) };

interface Job {
  readonly type: string;
  readonly status: string;
  readonly queuedSecondsAgo?: number;
  readonly attempt?: number;
  readonly retryLater?: boolean;
}

const insert = async ({ type, status, queuedSecondsAgo = 0, attempt = 0, retryLater = false }: Job): Promise<void> => {
  await db.query(
    `insert into jobs (id, project_id, type, status, data, request_id, attempt, queued_at, finished_at, next_run_at)
     values ($1, $2, $3, $4, 'null', 'r', $5, now() - make_interval(secs => $6),
       case when $4 = 'dead' then now() end, case when $7 then now() + interval '1 hour' end)`,
    [newId(), newId(), type, status, attempt, queuedSecondsAgo, retryLater],
  );
};

const valueIn = (text: string, name: string, type: string): number | null => {
  const found = new RegExp(`^${name}\\{type="${type}"\\} (\\S+)$`, 'm').exec(text)?.[1];
  return found === undefined ? null : Number(found);
};

test('the gate’s numbers are gauges by type', async (t) => {
  const text = await createJobGauges({ db, gate }, ['a.b', 'c.d'])();
  const values = (name: string) => ['a.b', 'c.d'].map((type) => valueIn(text, `plinth_jobs_${name}`, type));
  t.deepEqual(values('waiting'), [7, 7]);
  t.deepEqual(values('running'), [3, 3]);
  t.deepEqual(values('window'), [5, 5]);
  t.deepEqual(values('slots'), [4, 4]);
  t.deepEqual(values('workers_alive'), [1, 1]);
  t.deepEqual(values('gate_open'), [1, 1]);
  t.deepEqual(values('paused'), [0, 0]);
  t.regex(text, /^# TYPE plinth_jobs_waiting gauge$/m);
});

test('the oldest wait is that of a job that was never begun, also of one that was run again', async (t) => {
  await insert({ type: 'wait.first', status: 'queued', queuedSecondsAgo: 100 });
  await insert({ type: 'wait.first', status: 'queued', queuedSecondsAgo: 300 });
  await insert({ type: 'wait.first', status: 'queued', queuedSecondsAgo: 5000, attempt: 1 });
  await insert({ type: 'wait.first', status: 'queued', queuedSecondsAgo: 5000, retryLater: true });
  await insert({ type: 'wait.first', status: 'running', queuedSecondsAgo: 5000, attempt: 1 });
  const text = await createJobGauges({ db, gate }, ['wait.first', 'wait.none'])();
  const wait = valueIn(text, 'plinth_jobs_oldest_wait_seconds', 'wait.first') ?? 0;
  t.true(wait >= 300 && wait < 5000, String(wait));
  t.is(valueIn(text, 'plinth_jobs_oldest_wait_seconds', 'wait.none'), 0);
});

test('the operators’ page tells the wait that the metrics tell, and none where none waits', async (t) => {
  await insert({ type: 'cron.fire', status: 'queued', queuedSecondsAgo: 100 });
  await insert({ type: 'cron.fire', status: 'queued', queuedSecondsAgo: 300 });
  await insert({ type: 'cron.fire', status: 'queued', queuedSecondsAgo: 5000, attempt: 1 });
  await insert({ type: 'cron.fire', status: 'queued', queuedSecondsAgo: 5000, retryLater: true });
  const waits = await oldestWaits(db);
  t.deepEqual(
    waits.map(({ type }) => type),
    ['cron.fire'],
  );
  const seconds = waits[0]?.seconds ?? 0;
  t.true(seconds >= 300 && seconds < 5000, String(seconds));
});

test('dead jobs are counted by type', async (t) => {
  await insert({ type: 'dead.two', status: 'dead' });
  await insert({ type: 'dead.two', status: 'dead' });
  await insert({ type: 'dead.two', status: 'queued' });
  const text = await createJobGauges({ db, gate }, ['dead.two', 'dead.none'])();
  t.is(valueIn(text, 'plinth_jobs_dead', 'dead.two'), 2);
  t.is(valueIn(text, 'plinth_jobs_dead', 'dead.none'), 0);
});

test('without Redis the scrape leaves out what the gate would say', async (t) => {
  const text = await createJobGauges({ db, gate: noGate }, ['a.b'])();
  t.is(valueIn(text, 'plinth_jobs_waiting', 'a.b'), null);
  t.is(valueIn(text, 'plinth_jobs_gate_open', 'a.b'), null);
  t.is(valueIn(text, 'plinth_jobs_dead', 'a.b'), 0);
});

test('without Postgres the scrape leaves out what the rows would say', async (t) => {
  const nowhere = openControlDb({ url: 'postgres://127.0.0.1:1/none', connections: 1, log: memoryLog().log });
  const text = await createJobGauges({ db: nowhere, gate }, ['a.b'])();
  t.is(valueIn(text, 'plinth_jobs_waiting', 'a.b'), 7);
  t.is(valueIn(text, 'plinth_jobs_oldest_wait_seconds', 'a.b'), null);
  t.is(valueIn(text, 'plinth_jobs_dead', 'a.b'), null);
  await nowhere.close();
});

test('scrapes at the same time ask once', async (t) => {
  let requested = 0;
  const counting = {
    stats: (type: string): Promise<JobTypeStats> => {
      requested += 1;
      return Promise.resolve(stats(type));
    },
  };
  const gauges = createJobGauges({ db, gate: counting }, ['a.b']);
  const texts = await Promise.all(Array.from({ length: 50 }, gauges));
  t.is(requested, 1);
  t.is(new Set(texts).size, 1);
});

test('the questions to Postgres read indexes, not the table', async (t) => {
  const requested: string[] = [];
  const listening = {
    query: ((sql: string, values?: readonly unknown[]) => {
      requested.push(sql);
      return db.query(sql, values);
    }) as ControlDb['query'],
  };
  await createJobGauges({ db: listening, gate }, ['a.b'])();
  await db.query(
    `insert into jobs (id, project_id, type, status, data, request_id, finished_at)
     select uuid_v7(), uuid_v7(), 'a.b', 'succeeded', 'null', 'r', now() from generate_series(1, 5000)`,
  );
  await db.query('analyze jobs');
  t.is(requested.length, 1);
  const plan = await db.query<{ 'QUERY PLAN': string }>(`explain ${requested[0]}`, [['a.b']]);
  const lines = plan.map((row) => row['QUERY PLAN']).join('\n');
  t.notRegex(lines, /Seq Scan on jobs/, lines);
});
