import { Queue, QueueEvents, Worker } from 'bullmq';
import { createBatcher } from '#lib/batch.ts';
import { newId } from '#lib/ids.ts';
import { openRequestRedis, openWorkerRedis } from '#lib/redis.ts';
import { shardPrefix } from '#queues/gate/queue-shards.ts';
import { type Plan, type WorkerPlan, jobType } from '../plan.ts';
import { type Close, type Producer, type Subscribers, log, waitMs, workOf } from './side.ts';

// BullMQ alone, set as ours is: nothing kept, one attempt, the same lock, and added in bulk whenever there is more.

interface PlainData {
  readonly id: string;
  readonly projectId: string;
}

const plainQueue = 'plain';

export const plainProducer = async ({ redisUrl, prefix, replies, bulk }: Plan): Promise<Producer> => {
  const redis = openRequestRedis(redisUrl, log);
  const place = { connection: redis, prefix: shardPrefix(prefix, plainQueue), skipVersionCheck: true };
  // `waitUntilFinished` looks for the job once it has begun to listen.
  const defaultJobOptions = { attempts: 1, removeOnComplete: replies ? { count: 1000 } : true, removeOnFail: true };
  const queue = new Queue<PlainData, void>(plainQueue, { ...place, defaultJobOptions });
  const reader = openWorkerRedis(redisUrl, log);
  // Reads every event of the queue: only for those who wait.
  const events = replies ? new QueueEvents(plainQueue, { ...place, connection: reader }) : null;
  const batch = createBatcher((data: readonly PlainData[]) =>
    queue.addBulk(data.map((one) => ({ name: jobType, data: one, opts: { jobId: one.id } }))),
  );
  const addOne = (data: PlainData) => (bulk ? batch.add(data) : queue.add(jobType, data, { jobId: data.id }));
  // One listener for each job that is waited for.
  queue.setMaxListeners(0);
  events?.setMaxListeners(0);
  await Promise.all([queue.waitUntilReady(), events?.waitUntilReady()]);
  return {
    replyTo: null,
    add: async (projectId) => (await addOne({ id: newId(), projectId })).data.id,
    ask: async (projectId) => {
      if (events === null) throw new Error('opened without replies');
      const job = await addOne({ id: newId(), projectId });
      await job.waitUntilFinished(events, waitMs);
    },
    close: async () => {
      await Promise.all([queue.close(), events?.close()]);
      for (const connection of [redis, reader]) connection.disconnect();
    },
  };
};

export const plainWorker = async (
  { redisUrl, prefix, slots, workMs }: WorkerPlan,
  subscribers: Subscribers,
): Promise<Close> => {
  const redis = openWorkerRedis(redisUrl, log);
  const work = workOf(workMs);
  const worker = new Worker<PlainData, void>(
    plainQueue,
    async (job) => {
      subscribers.started(job.data.id);
      await work();
    },
    {
      connection: redis,
      prefix: shardPrefix(prefix, plainQueue),
      concurrency: slots,
      lockDuration: 10_000,
      stalledInterval: 5000,
      skipVersionCheck: true,
    },
  );
  worker.on('completed', subscribers.ended);
  await worker.waitUntilReady();
  return async () => {
    await worker.close();
    redis.disconnect();
  };
};
