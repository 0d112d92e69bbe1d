import { waitingBytesFrom } from '#domain/projects/plans.ts';
import type { Config } from '#lib/config.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { openRequestRedis, openWorkerRedis } from '#lib/redis.ts';
import type { JobDefinition } from '#queues/define.ts';
import { type ShardedGate, createGate } from '#queues/gate/gate.ts';
import { createAnswerWriters, reportsOver } from '#queues/answer-streams.ts';
import { openReplies, outcomesIn } from '#queues/replies.ts';
import { type Subscriber, openSubscriber, signalsOn } from '#queues/signals.ts';
import { type Jobs, createJobs } from './jobs.ts';
import { endsOf } from './store.ts';
import { rulesFrom, sharingFrom } from './limits.ts';

interface QueueOptions {
  readonly config: Config;
  readonly log: Log;
  readonly db: ControlDb;
  /** The kinds of jobs that there are. */
  readonly jobs: readonly JobDefinition[];
}

/** The parts of Redis access that both the API and workers need. */
export const openQueues = ({ config, log, db, jobs }: QueueOptions) => {
  const redis = openRequestRedis(config.REDIS_URL, log);
  const prefix = config.PLINTH_REDIS_PREFIX;
  const rules = rulesFrom(db, jobs, config.PLINTH_WAITING_JOBS, sharingFrom(config));
  const types = jobs.map((job) => job.type);
  const gate: ShardedGate = createGate({ redis, prefix, types, shardCount: config.PLINTH_QUEUE_SHARDS, rules });
  const subscriber: Subscriber = openSubscriber(openWorkerRedis(config.REDIS_URL, log), prefix);
  return {
    redis,
    rules,
    gate,
    subscriber,
    outcomes: outcomesIn(redis, prefix),
    answers: createAnswerWriters(redis, subscriber, prefix),
    signals: signalsOn(redis, prefix),
    close: async (): Promise<void> => {
      subscriber.close();
      await gate.close();
      redis.disconnect();
    },
  };
};

export type Queues = ReturnType<typeof openQueues>;

/** The queues with the way in: accepting jobs and waiting for their ends. */
export const openJobs = (options: QueueOptions): Queues & { readonly jobs: Jobs } => {
  const { config, log, db } = options;
  const queues = openQueues(options);
  const replies = openReplies(
    openWorkerRedis(config.REDIS_URL, log),
    config.PLINTH_REDIS_PREFIX,
    (ids) => endsOf(db, ids),
    reportsOver(queues.redis),
  );
  const queueIsUp = (): boolean => queues.redis.status === 'ready';
  return {
    ...queues,
    jobs: createJobs({
      db,
      log,
      replies,
      queueIsUp,
      waitingJobs: config.PLINTH_WAITING_JOBS,
      waitingBytes: waitingBytesFrom(config),
      ...queues,
    }),
    close: async () => {
      await replies.close();
      await queues.close();
    },
  };
};
