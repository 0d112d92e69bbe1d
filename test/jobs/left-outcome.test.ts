import test from 'ava';
import { startShardEpoch } from '#domain/jobs/queue-shards.ts';
import { startJobs } from '#domain/jobs/store.ts';
import { newId } from '#lib/ids.ts';
import { openWorkerRedis } from '#lib/redis.ts';
import { outcomesIn } from '#queues/replies.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { worker: false });

test('an outcome that was published but not recorded is recorded by the next worker, without a second run', async (t) => {
  const own = platform();
  const { client, config, db } = own;
  const user = await client.signUp();
  const headers = { prefer: 'respond-async' };
  const accepted = await client.call('POST', '/projects', { token: user.token, body: { name: 'Told' }, headers });
  const { job_id: id } = accepted.body;
  // As a worker that died right after it had told the end.
  const redis = openWorkerRedis(config.REDIS_URL, memoryLog().log);
  const [shard, runId] = ['project.provision', newId()];
  const { epoch } = await startShardEpoch(db, { name: shard, type: shard, part: { index: 0, count: 1 } });
  await startJobs(db, [{ id, runId, workerId: newId(), shard, epoch: String(epoch) }]);
  const outcome = { status: 'failed', result: null, error: { code: 'internal', message: 'left behind' } } as const;
  await outcomesIn(redis, config.PLINTH_REDIS_PREFIX).publish({
    jobId: id,
    runId,
    finishedAt: new Date(),
    outcome,
    replyTo: null,
  });
  // A caller that asks meanwhile learns an end that Postgres does not know yet.
  const location = accepted.headers.get('location') ?? '';
  t.like((await client.call('GET', location, { token: user.token })).body, { status: 'failed' });
  await own.startWorker();
  await until(async () => (await db.query(`select from jobs where id = $1 and status = 'failed'`, [id])).length > 0);
  const [row] = await db.query<{ attempt: number; error_message: string }>(
    'select attempt, error_message from jobs where id = $1',
    [id],
  );
  t.deepEqual(row, { attempt: 1, error_message: 'left behind' });
  const [project] = await db.query<{ status: string }>(`select status from projects where name = 'Told'`);
  t.is(project?.status, 'creating');
  redis.disconnect();
});
