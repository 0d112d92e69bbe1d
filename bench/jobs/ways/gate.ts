import type { Redis } from 'ioredis';
import { newId } from '#lib/ids.ts';
import { openRequestRedis, openWorkerRedis } from '#lib/redis.ts';
import { consume } from '#queues/consumer.ts';
import { ShardGate } from '#queues/gate/shard-gate.ts';
import { shardsOf } from '#queues/gate/queue-shards.ts';
import { scriptsOn } from '#queues/gate/scripts.ts';
import { openReplies, outcomesIn } from '#queues/replies.ts';
import { type Plan, type WorkerPlan, jobType, waitingCap } from '../plan.ts';
import { type Close, type Producer, type Subscribers, log, ready, succeeded, waitMs, workOf } from './side.ts';

// The gate before BullMQ, without rows.

const [shard] = shardsOf(jobType, 1);
if (shard === undefined) throw new Error('a job type has at least one shard');

const gateOn = (redis: Redis, { prefix, limit }: Plan): ShardGate =>
  new ShardGate({
    redis,
    scripts: scriptsOn(redis),
    prefix,
    shard,
    limitsOf: async (projects) =>
      new Map(projects.map((project) => [project, { running: limit, waiting: waitingCap }])),
  });

export const gateProducer = async (plan: Plan): Promise<Producer> => {
  const redis = openRequestRedis(plan.redisUrl, log);
  await ready(redis);
  const gate = gateOn(redis, plan);
  const replies = openReplies(openWorkerRedis(plan.redisUrl, log), plan.prefix);
  const add = async (projectId: string, id: string): Promise<string> => {
    await gate.admit({ id, projectId }, true);
    return id;
  };
  return {
    replyTo: plan.replies ? replies.stream : null,
    add: (projectId) => add(projectId, newId()),
    ask: async (projectId) => {
      const id = newId();
      const { outcome } = replies.wait(id, waitMs);
      await add(projectId, id);
      if ((await outcome) === null) throw new Error('no reply in time');
    },
    close: async () => {
      await Promise.all([gate.close(), replies.close()]);
      redis.disconnect();
    },
  };
};

/** The heartbeat by which the gate counts a worker's slots. */
const keepBeating = async (gate: ShardGate, slots: number): Promise<Close> => {
  const workerId = newId();
  const beat = () => gate.beat({ workerId, slots, info: '{}' });
  if (!(await beat()).open) await gate.restore(1, []);
  await beat();
  const timer = setInterval(() => void beat(), 1000);
  return async () => clearInterval(timer);
};

export const gateWorker = async (plan: WorkerPlan, subscribers: Subscribers): Promise<Close> => {
  const [taking, giving] = [openWorkerRedis(plan.redisUrl, log), openRequestRedis(plan.redisUrl, log)];
  await ready(giving);
  const gate = gateOn(giving, plan);
  const stopBeating = await keepBeating(gate, plan.slots);
  const outcomes = outcomesIn(giving, plan.prefix);
  const work = workOf(plan.workMs);
  const { replyTo } = plan;
  const consumer = consume({
    redis: taking,
    prefix: plan.prefix,
    shard: gate.shard,
    slots: plan.slots,
    sendEnd: async (lease, end, finish) => gate.end(lease, await outcomes.textsOf(end), finish),
    process: async ({ lease, complete }) => {
      subscribers.started(lease.id);
      await work();
      if (replyTo === null) await gate.finish(lease);
      else await complete?.({ jobId: lease.id, runId: lease.id, finishedAt: new Date(), outcome: succeeded, replyTo });
      subscribers.ended();
    },
    onError: () => undefined,
  });
  await consumer.ready();
  return async () => {
    await stopBeating();
    await consumer.close();
    await gate.close();
    for (const connection of [taking, giving]) connection.disconnect();
  };
};
