import test from 'ava';
import { Redis } from 'ioredis';
import { type Delivery, consume } from '#queues/consumer.ts';
import { testEnv } from '#test/support/env.ts';
import { until } from '#test/support/until.ts';
import { openGate, projects } from './scene.ts';

const slots = 3;

test('each job is processed once, whether it is fetched by itself or with the end of another, and in its slots', async (t) => {
  const scene = await openGate(t, { running: 100, slots: 100 });
  const redis = new Redis(testEnv('REDIS_URL'), { maxRetriesPerRequest: null });
  const processed: string[] = [];
  let running = 0;
  let max = 0;
  const process = async ({ lease }: Delivery): Promise<void> => {
    processed.push(lease.id);
    running += 1;
    max = Math.max(max, running);
    await new Promise(setImmediate);
    await scene.shard.finish(lease);
    running -= 1;
  };
  const { prefix, shard } = scene;
  const consumer = consume({ redis, prefix, shard: shard.shard, slots, process, onError: (error) => t.log(error) });
  t.teardown(() => redis.disconnect());
  await consumer.ready();
  const [project = ''] = projects(1);
  const alone = await scene.admit(project, 1);
  await until(() => processed.length === 1);
  const many = await scene.admit(project, 60);
  await until(() => processed.length === 61);
  await consumer.close();
  t.deepEqual(processed.toSorted(), [...alone, ...many].toSorted());
  t.true(max <= slots, `${max} at a time`);
  t.is(await shard.queue.getActiveCount(), 0);
});

test('a consumer that is closed waits for the end of a job that was just taken', async (t) => {
  const scene = await openGate(t);
  const redis = new Redis(testEnv('REDIS_URL'), { maxRetriesPerRequest: null });
  const [taken, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let ended = false;
  const process = async (): Promise<void> => {
    taken.resolve();
    await end.promise;
    ended = true;
  };
  const { prefix, shard } = scene;
  const consumer = consume({ redis, prefix, shard: shard.shard, slots, process, onError: (error) => t.log(error) });
  t.teardown(() => redis.disconnect());
  await consumer.ready();
  const [project = ''] = projects(1);
  await scene.admit(project, 1);
  await taken.promise;
  const closed = consumer.close();
  end.resolve();
  await closed;
  t.true(ended);
  t.is(await shard.queue.getActiveCount(), 0);
});
