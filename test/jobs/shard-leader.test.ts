import test from 'ava';
import { noteSeen, startShardEpoch } from '#domain/jobs/queue-shards.ts';
import { insertJobs, startJobs } from '#domain/jobs/store.ts';
import { newId } from '#lib/ids.ts';
import type { JobDefinition } from '#queues/define.ts';
import { type EngineScene, heldRuns, openEngine, succeeded, testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';
import type { ShardContext } from '#workers/shard-leader/context.ts';
import { createAdmitDue } from '#workers/shard-leader/due.ts';
import { reap } from '#workers/shard-leader/reap.ts';
import type { FailureDetector } from '#workers/shard-leader/heartbeat.ts';
import type { Processor } from '#workers/processor.ts';

const idle: Processor = { run: () => Promise.resolve(succeeded()) };

const contextOf = (scene: EngineScene, job: JobDefinition, processor = idle): ShardContext => {
  const { db, log, queues } = scene;
  const [gate] = queues.gate.shards(job.type);
  if (gate === undefined) throw new Error('there is no queue shard');
  const { rules, outcomes, signals } = queues;
  return { db, log, gate, rules, job, processor, outcomes, signals, part: { index: 0, count: 1 } };
};

/** A job that a worker has begun which is not there any more. */
const beginAsDead = async (scene: EngineScene, job: JobDefinition, id: string): Promise<string> => {
  const shard = job.type;
  const { epoch } = await startShardEpoch(scene.db, { name: shard, type: job.type, part: { index: 0, count: 1 } });
  const runId = newId();
  await startJobs(scene.db, [{ id, runId, workerId: newId(), shard, epoch: String(epoch) }]);
  return runId;
};

const allDead: FailureDetector = { observe: () => undefined, isDead: () => true, alive: () => [] };

test('a job under which three workers died is dead as poison, with its failed attempts', async (t) => {
  const scene = await openEngine(t);
  const id = await scene.accept(testJobs.steady);
  for (const crashes of [1, 2]) {
    await beginAsDead(scene, testJobs.steady, id);
    await reap(contextOf(scene, testJobs.steady), allDead);
    t.like(await scene.row(id), { status: 'queued', crashes, attempt: crashes });
  }
  await beginAsDead(scene, testJobs.steady, id);
  const lastWord: Processor = { ...idle, giveUp: ({ code }) => Promise.resolve(JSON.stringify(code)) };
  await reap(contextOf(scene, testJobs.steady, lastWord), allDead);
  t.like(await scene.row(id), { status: 'dead', error_code: 'poison', result: '"poison"', attempt: 3 });
  const attempts = await scene.db.query('select error_code from job_attempts where job_id = $1', [id]);
  t.deepEqual(attempts, [{ error_code: 'crashed' }, { error_code: 'crashed' }]);
});

test('what may run once only is failed as crashed when its worker died, and its caller is told', async (t) => {
  const scene = await openEngine(t);
  const projectId = newId();
  const waiting = scene.jobs.run({ job: testJobs.once, projectId, requestId: 'r', data: null }, 20_000);
  const row = await until(async () => {
    const [found] = await scene.db.query<{ id: string }>('select id from jobs where project_id = $1', [projectId]);
    return found;
  });
  await beginAsDead(scene, testJobs.once, row.id);
  await reap(contextOf(scene, testJobs.once), allDead);
  t.like(await waiting, { outcome: { status: 'failed', error: { code: 'crashed' } } });
  t.like(await scene.row(row.id), { status: 'failed', error_code: 'crashed', attempt: 1 });
});

test('an outcome that a dead worker left is recorded, whatever the job', async (t) => {
  const scene = await openEngine(t);
  for (const job of [testJobs.once, testJobs.steady]) {
    const id = await scene.accept(job);
    const runId = await beginAsDead(scene, job, id);
    await scene.queues.outcomes.publish({
      jobId: id,
      runId,
      finishedAt: new Date(),
      outcome: succeeded('left'),
      replyTo: null,
    });
    await reap(contextOf(scene, job), allDead);
    t.like(await scene.row(id), { status: 'succeeded', result: '"left"', attempt: 1 });
    t.is(await scene.queues.outcomes.find(id, runId), null);
  }
});

test('the outcome of an earlier run is not the one that was cut off', async (t) => {
  const scene = await openEngine(t);
  const id = await scene.accept(testJobs.once);
  await beginAsDead(scene, testJobs.once, id);
  await scene.queues.outcomes.publish({
    jobId: id,
    runId: newId(),
    finishedAt: new Date(),
    outcome: succeeded('old'),
    replyTo: null,
  });
  await reap(contextOf(scene, testJobs.once), allDead);
  t.like(await scene.row(id), { status: 'failed', error_code: 'crashed' });
});

test('a run that was to be cancelled when its worker died is cancelled', async (t) => {
  const scene = await openEngine(t);
  const id = await scene.accept(testJobs.steady);
  await beginAsDead(scene, testJobs.steady, id);
  await scene.db.query('update jobs set cancel_requested_at = now() where id = $1', [id]);
  await reap(contextOf(scene, testJobs.steady), allDead);
  t.like(await scene.row(id), { status: 'cancelled', error_code: 'cancelled' });
});

test('a job that never reached the gate is admitted from its row', async (t) => {
  const scene = await openEngine(t);
  await scene.startWorker(() => Promise.resolve(succeeded('found')));
  const id = newId();
  await insertJobs(scene.db, [
    { id, projectId: newId(), type: 'test.once', data: 'null', maxAttempts: 1, requestId: 'r' },
  ]);
  t.like(await scene.rowWhen(id, 'succeeded'), { attempt: 1, result: '"found"' });
});

test('the lease of a job that has ended is freed for the next of its project', async (t) => {
  const scene = await openEngine(t);
  const projectId = newId();
  const [shard] = scene.queues.gate.shards('test.once');
  await scene.startWorker(() => Promise.resolve(succeeded()));
  // Both places of the project are held by jobs that are nowhere.
  const redisKey = `{${scene.config.PLINTH_REDIS_PREFIX}:test.once}:gate:`;
  const { redis } = scene.queues;
  const long = Date.now() - 60_000;
  for (const id of [newId(), newId()]) await redis.hset(`${redisKey}lease`, id, `${projectId}:${long}`);
  await redis.hset(`${redisKey}run`, projectId, 2);
  const id = await scene.accept(testJobs.once, projectId);
  await scene.rowWhen(id, 'succeeded');
  await until(async () => (await shard?.inspect.leased()) === 0);
  t.deepEqual(await shard?.inspect.running(), {});
});

test('a job that BullMQ lost after it was handed over is handed over again, and runs once', async (t) => {
  const scene = await openEngine(t, { PLINTH_SYSTEM_SLOTS: '1' });
  const held = heldRuns();
  await scene.startWorker(held.run);
  const ids = [await scene.accept(testJobs.once), await scene.accept(testJobs.once)];
  await until(() => held.contexts.length === 1);
  const lost = ids.find((id) => id !== held.contexts[0]?.jobId) ?? '';
  const [shard] = scene.queues.gate.shards('test.once');
  const waiting = await shard?.queue.getWaiting();
  const message = waiting?.find(({ id }) => id?.startsWith(lost));
  t.truthy(message);
  await message?.remove();
  held.release();
  t.like(await scene.rowWhen(lost, 'succeeded'), { attempt: 1 });
  t.is(held.contexts.filter(({ jobId }) => jobId === lost).length, 1);
});

test('after Redis lost everything what waits runs once, and what ran ends once', async (t) => {
  const scene = await openEngine(t);
  const held = heldRuns();
  await scene.startWorker(held.run);
  const projectId = newId();
  const ids: string[] = [];
  for (let i = 0; i < 6; i += 1) ids.push(await scene.accept(testJobs.once, projectId));
  await until(() => held.contexts.length === 2);
  const { redis } = scene.queues;
  const keys = await redis.keys(`{${scene.config.PLINTH_REDIS_PREFIX}:*`);
  await redis.unlink(...keys);
  const [shard] = scene.queues.gate.shards('test.once');
  await until(async () => (await shard?.inspect.running())?.[projectId] === '2');
  t.is(held.contexts.length, 2, 'nothing beyond the limit meanwhile');
  held.release();
  for (const id of ids) t.like(await scene.rowWhen(id, 'succeeded'), { attempt: 1 });
  t.deepEqual(held.contexts.map(({ jobId }) => jobId).toSorted(), ids.toSorted());
  await until(async () => (await shard?.inspect.leased()) === 0);
});

test('a worker that Postgres saw a moment ago keeps its jobs, though Redis does not hear of it', async (t) => {
  const scene = await openEngine(t);
  const id = await scene.accept(testJobs.once);
  await beginAsDead(scene, testJobs.once, id);
  const { worker_id: workerId } = await scene.row(id);
  await noteSeen(scene.db, workerId ?? '');
  await reap(contextOf(scene, testJobs.once), allDead);
  t.is((await scene.row(id)).status, 'running');
  await scene.db.query(`update job_workers set seen_at = now() - interval '1 minute'`);
  await reap(contextOf(scene, testJobs.once), allDead);
  t.like(await scene.row(id), { status: 'failed', error_code: 'crashed' });
});

test('a run whose last word cannot be had waits for the next round and holds up no other', async (t) => {
  const scene = await openEngine(t);
  const [bad, good] = [await scene.accept(testJobs.once), await scene.accept(testJobs.once)];
  await beginAsDead(scene, testJobs.once, bad);
  await beginAsDead(scene, testJobs.once, good);
  let isBroken = true;
  const processor: Processor = {
    ...idle,
    giveUp: (_error, { jobId }) =>
      isBroken && jobId === bad ? Promise.reject(new Error('not now')) : Promise.resolve(null),
  };
  const shard = contextOf(scene, testJobs.once, processor);
  await reap(shard, allDead);
  t.is((await scene.row(good)).status, 'failed');
  t.is((await scene.row(bad)).status, 'running');
  isBroken = false;
  await reap(shard, allDead);
  t.is((await scene.row(bad)).status, 'failed');
});

test('many runs of one project that wake together do not make those of another late', async (t) => {
  const scene = await openEngine(t);
  const { db } = scene;
  const wake = (projectId: string, count: number, ago: string) =>
    db.query(
      `insert into jobs (id, project_id, type, status, data, request_id, next_run_at)
       select uuid_v7(), $1, $2, 'waiting', 'null', 'r', now() - $4::interval from generate_series(1, $3::int)`,
      [projectId, testJobs.once.type, count, ago],
    );
  const [flood, other, quiet] = [newId(), newId(), newId()];
  await wake(flood, 3000, '2 hours');
  await wake(other, 1500, '1 hour');
  const admitDue = createAdmitDue(contextOf(scene, testJobs.once));
  await admitDue();
  await wake(quiet, 1, '1 second');
  const asleep = async (projectId: string): Promise<number> => {
    const rows = await db.query(`select from jobs where project_id = $1 and status = 'waiting'`, [projectId]);
    return rows.length;
  };
  t.deepEqual([await asleep(flood), await asleep(other)], [2500, 1500]);
  for (let turn = 0; turn < 3; turn += 1) await admitDue();
  t.is(await asleep(quiet), 0, 'it is behind two floods');
  t.true((await asleep(flood)) >= 1500);
  for (let turn = 0; turn < 12; turn += 1) await admitDue();
  t.deepEqual([await asleep(flood), await asleep(other)], [0, 0]);
});
