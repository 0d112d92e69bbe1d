import test from 'ava';
import { insertJobs } from '#domain/jobs/store.ts';
import { newId } from '#lib/ids.ts';
import { type EngineScene, heldRuns, openEngine, testJobs } from '#test/support/engine.ts';
import { until } from '#test/support/until.ts';
import { createRecorder } from '#workers/recorder.ts';

const { type } = testJobs.steady;

/** A project with as many jobs running as it may have, and one more that waits. */
const fullProject = async (scene: EngineScene) => {
  const runs = heldRuns();
  await scene.startWorker(runs.run);
  const projectId = newId();
  const ids = [
    await scene.accept(testJobs.steady, projectId),
    await scene.accept(testJobs.steady, projectId),
    await scene.accept(testJobs.steady, projectId),
  ] as const;
  await until(() => runs.contexts.length === 2);
  const [shard] = scene.queues.gate.shards(type);
  if (shard === undefined) throw new Error('there is no queue shard');
  return { projectId, shard, runs, first: ids[0], waiting: ids[2] };
};

test('a job that is delivered under a lease that it has no longer does not begin beside the limit', async (t) => {
  const scene = await openEngine(t);
  const { shard, runs, projectId, waiting } = await fullProject(scene);
  const [epoch] = await shard.inspect.conf();
  const old = { id: waiting, nonce: '1' };
  await shard.handOverOnceMore(epoch ?? '', [{ lease: old, projectId }]);
  await until(async () => (await shard.inBullmq([old]))[0] === false);
  t.is(runs.contexts.length, 2);
  t.is((await scene.row(waiting)).status, 'queued');
  runs.release();
  t.is((await scene.rowWhen(waiting, 'succeeded')).attempt, 1);
});

test('a job that begins anew keeps its place at the gate, under another lease', async (t) => {
  const scene = await openEngine(t);
  const { shard, runs, first, waiting } = await fullProject(scene);
  const leaseOf = async (id: string) => (await shard.leases()).find(({ lease }) => lease.id === id)?.lease;
  const before = await leaseOf(first);
  await shard.renew([{ id: first }]);
  const after = await leaseOf(first);
  t.truthy(before && after);
  t.false(before !== undefined && (await shard.isHeld(before)));
  t.true(after !== undefined && (await shard.isHeld(after)));
  t.is(await shard.inspect.leased(), 2);
  t.is((await scene.row(waiting)).status, 'queued');
  runs.release();
  await scene.rowWhen(first, 'succeeded');
});

test('of two deliveries of one job that begin at the same time one runs it', async (t) => {
  const scene = await openEngine(t);
  const id = newId();
  await scene.db.query('insert into queue_shards (name, epoch) values ($1, 1)', [type]);
  await insertJobs(scene.db, [{ id, projectId: newId(), type, data: 'null', maxAttempts: 1, requestId: 'r1' }]);
  const recorder = createRecorder(scene.db, scene.log);
  const start = { id, workerId: newId(), shard: type, epoch: '1' };
  const runIds = [newId(), newId()];
  const started = await Promise.all(runIds.map((runId) => recorder.begin({ ...start, runId })));
  t.is(started.filter((one) => one !== null).length, 1);
  const { run_id: winner } = await scene.row(id);
  t.truthy(started[runIds.indexOf(winner ?? '')]);
});
