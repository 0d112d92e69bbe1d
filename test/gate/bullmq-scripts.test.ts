import test, { type ExecutionContext } from 'ava';
import { type BullmqScripts, knownScripts } from '#queues/gate/bullmq-scripts.ts';
import { openGate, projects } from './scene.ts';

test('the installed BullMQ is the one whose scripts were tried', (t) => {
  // After an update: read the new scripts, run the gate's tests and the benchmarks, then write down their hashes.
  t.not(knownScripts(), null);
});

/** A job as it lies in BullMQ after it was handed over. */
const handOver = async (t: ExecutionContext, bullmqScripts: BullmqScripts | null, projectId: string) => {
  const { shard, redis, admitOne } = await openGate(t, { bullmqScripts });
  await admitOne(projectId);
  const ids = await redis.lrange(shard.queue.toKey('wait'), 0, -1);
  const [key] = ids.map((id) => shard.queue.toKey(id));
  const { timestamp: _timestamp, opts = '', ...fields } = await redis.hgetall(key ?? '');
  return {
    fields,
    options: JSON.parse(opts) as object,
    marker: await redis.zrange(shard.queue.toKey('marker'), '0', '-1'),
  };
};

test('a job that is added in one step with its lease is the same as one that BullMQ adds', async (t) => {
  const [projectId = ''] = projects(1);
  const ours = await handOver(t, knownScripts(), projectId);
  const bullmqs = await handOver(t, null, projectId);
  t.deepEqual(ours.fields, { ...bullmqs.fields });
  t.deepEqual(ours.marker, bullmqs.marker);
  t.like(bullmqs.options, ours.options);
});

test('with a BullMQ that is not known, jobs are handed over through its public interface', async (t) => {
  const { admit, finish, handedOver, leases } = await openGate(t, { bullmqScripts: null, running: 1 });
  const [quiet = '', noisy = ''] = projects(2);
  const first = await admit(noisy, 2);
  const second = await admit(quiet, 1);
  t.deepEqual(await handedOver(), [first[0], second[0]]);
  await finish(first[0] ?? '');
  t.deepEqual(await handedOver(), [first[0], second[0], first[1]]);
  t.is((await leases()).length, 2);
});
