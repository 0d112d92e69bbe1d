import test from 'ava';
import { setProgress } from '#domain/jobs/logs.ts';
import { byIndexOnly, insertJobs, recordEnds, startJobs } from '#domain/jobs/store.ts';
import { type ControlDb, type Tx, openControlDb } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false });

const type = 'test.plans';
const shard = 'plans';
const projectId = newId();
const waiting = 20_000;

/** Rows of jobs that this transaction has read. */
const readBy = async (tx: Tx): Promise<number> => {
  const [row] = await tx.query<{ read: number }>(
    `select (seq_tup_read + idx_tup_fetch)::int as read from pg_stat_xact_user_tables where relname = 'jobs'`,
  );
  return row?.read ?? -1;
};

let db: ControlDb;
test.before('sessions as the recorder has them', () => {
  const { config } = platform();
  db = openControlDb({ url: config.DATABASE_URL, connections: 1, log: memoryLog().log, settings: byIndexOnly });
});
test.after.always(() => db.close());

/** A job is begun, tells of its progress and is ended; answers what was read for that. */
const once = async (): Promise<number> => {
  const [id, runId] = [newId(), newId()];
  await insertJobs(db, [{ id, projectId, type, data: '{}', maxAttempts: 1, requestId: 'plans' }]);
  return db.transaction(async (tx) => {
    const started = await startJobs(tx, [{ id, runId, workerId: newId(), shard, epoch: '1' }], 'start-jobs');
    await setProgress(tx, new Map([[id, 50]]));
    const outcome = { status: 'succeeded', result: null, error: null } as const;
    const { ids: ended } = await recordEnds(tx, [{ id, runId, finishedAt: new Date(), outcome }], 'record-ends');
    if (started.length + ended.length !== 2) throw new Error('the job was not begun, or not ended');
    return readBy(tx);
  });
};

test('however many jobs wait and run, whoever begins one, tells of it or ends it reads no other', async (t) => {
  await db.query('insert into queue_shards (name, epoch) values ($1, 1)', [shard]);
  // As often as it takes until plans are kept: those of a table that is almost empty.
  for (let n = 0; n < 8; n += 1) await once();
  await db.query(
    `insert into jobs (id, project_id, type, status, data, request_id)
     select uuid_v7(), $1, $2, case when n % 2 = 0 then 'queued' else 'running' end, '{}', 'plans'
     from generate_series(1, $3::int) n`,
    [projectId, type, waiting],
  );
  const [kept, anew] = [await once(), await db.query('analyze jobs').then(once)];
  t.true(kept < 50, `${kept} rows were read by a plan that was kept`);
  t.true(anew < 50, `${anew} rows were read by a new plan`);
});
