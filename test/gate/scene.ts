import { randomBytes } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import { Redis } from 'ioredis';
import { newId } from '#lib/ids.ts';
import type { BullmqScripts } from '#queues/gate/bullmq-scripts.ts';
import { type ShardedGate, createGate } from '#queues/gate/gate.ts';
import type { GateRules } from '#queues/gate/types.ts';
import type { ShardGate, ShardSnapshot } from '#queues/gate/shard-gate.ts';
import type { Lease } from '#queues/gate/lease.ts';
import type { Admission, Share } from '#queues/gate/types.ts';
import { testEnv } from '#test/support/env.ts';

export const type = 'test.job';

export interface GateOptions {
  /** The limits of every project, unless it has its own. */
  readonly running?: number;
  readonly waiting?: number;
  readonly slots?: number;
  readonly shardCount?: number;
  readonly globalLimit?: number;
  readonly rules?: GateRules;
  /** Null: jobs are added through BullMQ's public interface. */
  readonly bullmqScripts?: BullmqScripts | null;
  /** False: as after Redis lost its memory. */
  readonly open?: boolean;
}

/** A gate with rules of its own and a worker that only beats: what is handed over lies in BullMQ and stays there. */
export interface GateScene {
  readonly gate: ShardedGate;
  readonly shard: ShardGate;
  readonly redis: Redis;
  readonly prefix: string;
  /** As the rules have them; the gate learns of a change by `rulesChanged`. */
  readonly limits: Map<string, Share>;
  readonly paused: Set<string>;
  readonly beat: (slots?: number | null, workerId?: string) => Promise<ShardSnapshot>;
  /** Admits new jobs of a project one after the other; answers their ids. */
  readonly admit: (projectId: string, count: number, capped?: boolean) => Promise<string[]>;
  readonly admitOne: (projectId: string, id?: string, capped?: boolean) => Promise<Admission>;
  /** Admits a job that somebody waits for. */
  readonly admitAwaited: (projectId: string, id?: string) => Promise<Admission>;
  /** Every job that was handed over so far, in that order. */
  readonly handedOver: () => Promise<string[]>;
  readonly leases: () => Promise<{ lease: Lease; projectId: string }[]>;
  /** Ends a job as the worker does that ran it. */
  readonly finish: (id: string) => Promise<void>;
  readonly running: (projectId: string) => Promise<number>;
  readonly waiting: (projectId: string) => Promise<number>;
}

const removeKeys = async (redis: Redis, prefix: string): Promise<void> => {
  for await (const keys of redis.scanStream({ match: `*${prefix}*`, count: 1000 })) {
    if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
  }
};

const rulesIn = (
  limits: ReadonlyMap<string, Share>,
  paused: ReadonlySet<string>,
  { globalLimit, ...other }: Share & { readonly globalLimit: number | null },
): GateRules => ({
  globalLimitOf: () => Promise.resolve(globalLimit),
  limitsOf: (_type, projects) => Promise.resolve(new Map(projects.map((id) => [id, limits.get(id) ?? other]))),
  pausesOf: () => Promise.resolve([...paused]),
});

/** @returns ids of projects in their order, all of one shard */
export const projects = (count: number): string[] => Array.from({ length: count }, () => newId());

const watching = ({ shard, redis }: Pick<GateScene, 'shard' | 'redis'>) => ({
  handedOver: async () => {
    const ids = await redis.lrange(shard.queue.toKey('wait'), 0, -1);
    return ids.toReversed().map((bullId) => bullId.split('.')[0] ?? '');
  },
  running: async (projectId: string) => Number((await shard.inspect.running())[projectId] ?? 0),
  waiting: async (projectId: string) => {
    const backlog = await shard.inspect.backlog(10_000);
    const at = backlog.indexOf(projectId);
    return at < 0 ? 0 : Number(backlog[at + 1]);
  },
});

const prepare = async (shards: readonly ShardGate[], globalLimit: number | null, open: boolean): Promise<void> => {
  for (const shard of shards) {
    await shard.setGlobalLimit(globalLimit);
    if (open) await shard.restore(1, []);
  }
};

export const openGate = async (t: ExecutionContext, options: GateOptions = {}): Promise<GateScene> => {
  const { running = 2, waiting = 10_000, slots = 10, shardCount = 1, globalLimit = null, open = true } = options;
  const redis = new Redis(testEnv('REDIS_URL'));
  const prefix = `test-gate-${randomBytes(6).toString('hex')}`;
  const [limits, paused] = [new Map<string, Share>(), new Set<string>()];
  const rules = options.rules ?? rulesIn(limits, paused, { running, waiting, globalLimit });
  const gate = createGate({ redis, prefix, types: [type], shardCount, rules, bullmqScripts: options.bullmqScripts });
  t.teardown(async () => {
    await gate.close();
    await removeKeys(redis, prefix);
    redis.disconnect();
  });
  const [shard] = gate.shards(type);
  if (shard === undefined) throw new Error('there is no queue shard');
  const [worker] = [newId()];
  const beat: GateScene['beat'] = async (own = slots, workerId = worker) => {
    const info = JSON.stringify({ name: 'w', running: 0, startedAt: 0 });
    const pulses = await Promise.all(gate.shards(type).map((each) => each.beat({ workerId, slots: own, info })));
    const [snapshot] = pulses;
    if (snapshot === undefined) throw new Error('there is no queue shard');
    return snapshot;
  };
  await prepare(gate.shards(type), globalLimit, open);
  await beat();
  const admitOne: GateScene['admitOne'] = (projectId, id = newId(), capped = false) =>
    gate.admit({ id, type, projectId }, capped);
  return {
    gate,
    shard,
    redis,
    prefix,
    limits,
    paused,
    beat,
    admitOne,
    admitAwaited: (projectId, id = newId()) => gate.admit({ id, type, projectId, awaited: true }, false),
    ...watching({ shard, redis }),
    leases: () => shard.leases(),
    admit: async (projectId, count, capped = false) => {
      const ids = Array.from({ length: count }, () => newId());
      for (const id of ids) await admitOne(projectId, id, capped);
      return ids;
    },
    finish: async (id) => {
      const held = (await shard.leases()).find(({ lease }) => lease.id === id);
      if (held === undefined) throw new Error(`${id} holds no lease`);
      await shard.finish(held.lease);
    },
  };
};

/** Ends what was handed over first, over and over, until nothing waits. Calls back before each end. */
export const runDry = async (
  scene: GateScene,
  inspect: () => Promise<void> = () => Promise.resolve(),
): Promise<string[]> => {
  for (let done = 0; ; done += 1) {
    const [next] = (await scene.handedOver()).slice(done);
    if (next === undefined) return scene.handedOver();
    await inspect();
    await scene.finish(next);
  }
};
