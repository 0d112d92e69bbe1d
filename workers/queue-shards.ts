import { admitKeyed } from '#domain/jobs/concurrency.ts';
import type { Config } from '#lib/config.ts';
import type { ControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { openWorkerRedis } from '#lib/redis.ts';
import { type Consumer, consume } from '#queues/consumer.ts';
import { cronFire } from '#queues/cron-fire.ts';
import type { JobDefinition } from '#queues/define.ts';
import type { ShardedGate } from '#queues/gate/gate.ts';
import type { GateRules } from '#queues/gate/types.ts';
import type { ShardGate } from '#queues/gate/shard-gate.ts';
import { type ShardOptions, startShardLeaders } from './shard-leader/shard-leader.ts';
import { runJob } from './run-job.ts';
import type { RunJobDeps } from './work.ts';

export interface QueueShardsOptions {
  readonly config: Config;
  readonly db: ControlDb;
  readonly log: Log;
  readonly gate: ShardedGate;
  readonly rules: GateRules;
  readonly deps: Omit<RunJobDeps, 'finish' | 'readmit' | 'admitKeyed' | 'retryIn' | 'isHeld'>;
}

/** The shards that one worker serves. */
export interface ServedShards {
  readonly ready: () => Promise<void>;
  /** Takes no more jobs; resolves when the running ones have ended. */
  readonly drain: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** A scheduled request mostly waits for somebody else's answer, so that there is room for many. */
const slotsOf = ({ type, pool }: JobDefinition, config: Config): number => {
  if (type === cronFire.type) return config.PLINTH_CRON_SLOTS;
  return {
    functions: config.PLINTH_FUNCTION_SLOTS,
    system: config.PLINTH_SYSTEM_SLOTS,
    webhooks: config.PLINTH_WEBHOOK_SLOTS,
    email: config.PLINTH_EMAIL_SLOTS,
    ai: config.PLINTH_AI_SLOTS,
    vectors: config.PLINTH_VECTOR_SLOTS,
    storage: config.PLINTH_PICTURE_SLOTS,
  }[pool];
};

/** A part of a number that is spread over shards; each has some. */
const share = (all: number, parts: number): number => Math.max(1, Math.floor(all / parts));

/** A row's time is of Postgres' clock, the timer's of ours. */
const retrySlackMs = 10;

interface Served {
  readonly consumer: Consumer;
  readonly disconnect: () => void;
}

/** Calls back when a retry is due; should that fail, the shard's leader admits it a little later. */
const retryTimers = (admitDue: (type: string) => void) => {
  const timers = new Set<NodeJS.Timeout>();
  return {
    start: (type: string, ms: number): void => {
      const timer = setTimeout(() => {
        timers.delete(timer);
        admitDue(type);
      }, ms + retrySlackMs).unref();
      timers.add(timer);
    },
    clear: (): void => {
      for (const timer of timers) clearTimeout(timer);
    },
  };
};

interface ToServe {
  readonly job: JobDefinition;
  readonly shard: ShardGate;
  readonly index: number;
}

const shardOptionsOf = (
  { config, db, log, rules, deps }: QueueShardsOptions,
  { job, shard, index }: ToServe,
): ShardOptions => {
  const processor = deps.processors[job.type];
  if (processor === undefined) throw new Error(`no processor for ${job.type}`);
  const shardCount = config.PLINTH_QUEUE_SHARDS;
  const name = config.PLINTH_WORKER_NAME;
  const startedAt = Date.now();
  return {
    db,
    log,
    gate: shard,
    rules,
    job,
    processor,
    outcomes: deps.outcomes,
    signals: deps.signals,
    part: { index, count: shardCount },
    slots: share(slotsOf(job, config), shardCount),
    info: () => JSON.stringify({ name, running: deps.running.count(job.type), startedAt, sandbox: processor.sandbox }),
  };
};

const serve = (options: QueueShardsOptions, runDeps: RunJobDeps, to: ToServe): Served => {
  const { config, log } = options;
  const redis = openWorkerRedis(config.REDIS_URL, log);
  return {
    disconnect: () => redis.disconnect(),
    consumer: consume({
      redis,
      prefix: config.PLINTH_REDIS_PREFIX,
      shard: to.shard.shard,
      slots: share(slotsOf(to.job, config), config.PLINTH_QUEUE_SHARDS),
      sendEnd: async (lease, end, finish) => to.shard.end(lease, await runDeps.outcomes.textsOf(end), finish),
      process: (delivery) => runJob(runDeps, delivery),
      onError: (error) => log.debug({ err: error }, 'the queue reported an error'),
    }),
  };
};

/** Serves every shard of the jobs that this worker runs. */
export const serveShards = (options: QueueShardsOptions): ServedShards => {
  const { gate, deps } = options;
  const shards = deps.jobs.flatMap((job) =>
    gate.shards(job.type).map((shard, index): ToServe => ({ job, shard, index })),
  );
  const byName = new Map(shards.map(({ shard }) => [shard.shard.name, shard]));
  const retries = retryTimers((type) => {
    shardLeaders.admitDue(type).catch(() => undefined);
  });
  const runDeps: RunJobDeps = {
    ...deps,
    finish: async (shard, lease) => {
      await byName.get(shard)?.finish(lease);
    },
    isHeld: async (shard, lease) => (await byName.get(shard)?.isHeld(lease)) ?? false,
    readmit: async (shard, job) => {
      await byName.get(shard)?.readmit([job]);
    },
    admitKeyed: async (shard, keys) => {
      const admitted = await admitKeyed(options.db, keys);
      if (admitted.length > 0) await byName.get(shard)?.readmit(admitted);
    },
    retryIn: retries.start,
  };
  const served = shards.map((shard) => serve(options, runDeps, shard));
  const shardLeaders = startShardLeaders({
    ...options,
    workerId: deps.workerId,
    shards: shards.map((shard) => shardOptionsOf(options, shard)),
  });
  const all = (work: (one: Served) => Promise<unknown>): Promise<unknown> => Promise.all(served.map(work));

  return {
    ready: async () => {
      await Promise.all([shardLeaders.ready(), all(({ consumer }) => consumer.ready())]);
    },
    drain: async () => {
      await Promise.all([shardLeaders.leave(), all(({ consumer }) => consumer.close())]);
    },
    close: async () => {
      retries.clear();
      await shardLeaders.stop();
      for (const { disconnect } of served) disconnect();
    },
  };
};
