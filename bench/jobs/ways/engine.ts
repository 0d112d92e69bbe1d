import { z } from 'zod';
import { openJobs } from '#domain/jobs/open.ts';
import { type Config, loadConfig } from '#lib/config.ts';
import { openControlDb } from '#lib/control-db.ts';
import { defineJob } from '#queues/define.ts';
import { startEngine } from '#workers/engine.ts';
import { type Plan, type WorkerPlan, jobType, waitingCap } from '../plan.ts';
import { type Close, type Producer, type Subscribers, log, ready, succeeded, waitMs, workOf } from './side.ts';

// All of it: a row for each job, written before and after.

const engineJob = defineJob({
  type: jobType,
  pool: 'system',
  data: z.object({}),
  result: z.null(),
  running: { free: 1, pro: 1, enterprise: 1 },
  plural: 'Jobs',
  maxAttempts: 1,
  repeatable: true,
  timeoutMs: 60_000,
  capped: true,
});

const engineOptions = ({ redisUrl, databaseUrl, prefix, slots, limit }: Plan) => {
  const config: Config = {
    ...loadConfig({
      REDIS_URL: redisUrl,
      DATABASE_URL: databaseUrl,
      PLINTH_REDIS_PREFIX: prefix,
      PLINTH_SECRET_KEYS: `1:${Buffer.alloc(32).toString('base64')}`,
      PLINTH_WAITING_JOBS: String(waitingCap),
    }),
    // More slots than the setting allows: the same number as on the other ways.
    PLINTH_SYSTEM_SLOTS: slots,
  };
  const db = openControlDb({ url: databaseUrl, connections: config.PLINTH_DATABASE_POOL, log });
  const running = { free: limit, pro: limit, enterprise: limit };
  return { config, log, db, jobs: [{ ...engineJob, running }] };
};

export const engineProducer = async (plan: Plan): Promise<Producer> => {
  const options = engineOptions(plan);
  const queues = openJobs(options);
  await ready(queues.redis);
  const run = (projectId: string, ms: number) =>
    queues.jobs.run({ job: engineJob, projectId, requestId: 'bench', data: {} }, ms);
  return {
    replyTo: null,
    add: async (projectId) => (await run(projectId, 0)).id,
    ask: async (projectId) => {
      if ((await run(projectId, waitMs)).outcome === null) throw new Error('no reply in time');
    },
    close: async () => {
      await queues.close();
      await options.db.close();
    },
  };
};

export const engineWorker = async (plan: WorkerPlan, subscribers: Subscribers): Promise<Close> => {
  const options = engineOptions(plan);
  const work = workOf(plan.workMs);
  const engine = await startEngine({
    ...options,
    processors: {
      [jobType]: {
        run: async (_data, { jobId }) => {
          subscribers.started(jobId);
          await work();
          subscribers.ended();
          return succeeded;
        },
      },
    },
  });
  return async () => {
    await engine.drain();
    await engine.close();
    await options.db.close();
  };
};
