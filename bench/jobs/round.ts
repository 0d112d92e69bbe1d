import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Bench } from '../harness.ts';
import { requiredIn } from '../settings.ts';
import { type Child, type StartChild, withChildren } from './child.ts';
import type { Plan, WorkerPlan } from './plan.ts';

export type RoundPlan = Pick<Plan, 'way' | 'slots' | 'limit' | 'workMs'> &
  Partial<Pick<Plan, 'databaseUrl' | 'replies' | 'bulk'>>;

/** One producer and one worker, ready, on keys of their own. */
export interface Round {
  readonly plan: Plan;
  readonly producer: Child;
  readonly worker: Child;
  /** Another producer's process on the same keys. */
  readonly openProducer: () => Promise<Child>;
  /** Another worker's. */
  readonly openWorker: () => Promise<Child>;
}

export const withRedis = async <T>(bench: Bench, work: (redis: Redis) => Promise<T>): Promise<T> => {
  const redis = new Redis(requiredIn(bench.env, 'REDIS_URL'));
  try {
    return await work(redis);
  } finally {
    redis.disconnect();
  }
};

export const removeKeys = (bench: Bench, prefix: string): Promise<void> =>
  withRedis(bench, async (redis) => {
    for await (const keys of redis.scanStream({ match: `{${prefix}:*`, count: 1000 })) {
      if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
    }
  });

export const planOf = (bench: Bench, { databaseUrl = '', replies = false, bulk = true, ...plan }: RoundPlan): Plan => ({
  ...plan,
  redisUrl: requiredIn(bench.env, 'REDIS_URL'),
  databaseUrl,
  replies,
  bulk,
  prefix: `bench-${randomBytes(6).toString('hex')}`,
});

const openRound = async (plan: Plan, start: StartChild): Promise<Round> => {
  let replyTo: string | null = null;
  const openProducer = async (): Promise<Child> => {
    const child = start('producer');
    replyTo = await child.ask<string | null>('open', plan);
    return child;
  };
  const openWorker = async (): Promise<Child> => {
    const child = start('worker');
    await child.ask('open', { ...plan, replyTo } satisfies WorkerPlan);
    return child;
  };
  const producer = await openProducer();
  return { plan, producer, worker: await openWorker(), openProducer, openWorker };
};

/** Gives `work` a fresh producer and worker; afterwards nothing of theirs is left in Redis. */
export const onRound = async <T>(bench: Bench, round: RoundPlan, work: (round: Round) => Promise<T>): Promise<T> => {
  const plan = planOf(bench, round);
  try {
    return await withChildren(bench, async (start) => work(await openRound(plan, start)));
  } finally {
    await removeKeys(bench, plan.prefix);
  }
};
