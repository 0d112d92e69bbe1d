import type { Redis } from 'ioredis';
import { z } from 'zod';
import type { JobRef } from '../define.ts';
import { sandboxLevels } from '../function-invoke.ts';
import { projectProvision } from '../project-provision.ts';
import type { BullmqScripts } from './bullmq-scripts.ts';
import { ShardGate, silentAfterMs } from './shard-gate.ts';
import { shardOf, shardsOf } from './queue-shards.ts';
import { scriptsOn } from './scripts.ts';
import { settleRules } from './settle-rules.ts';
import type { Gate, GateRules, JobTypeStats, Limits, LiveWorker, Place, ProjectLoad } from './types.ts';

export interface GateOptions {
  readonly redis: Redis;
  readonly prefix: string;
  readonly types: readonly string[];
  /** Shards per type (PLINTH_QUEUE_SHARDS). */
  readonly shardCount: number;
  readonly rules: GateRules;
  /** Null: jobs are added through BullMQ's public interface (see bullmq-scripts.ts). */
  readonly bullmqScripts?: BullmqScripts | null | undefined;
}

/** The gate with its shards, for those who keep them. */
export interface ShardedGate extends Gate {
  readonly shards: (type: string) => readonly ShardGate[];
}

const workerInfo = z.object({
  name: z.string(),
  running: z.number(),
  startedAt: z.number(),
  sandbox: z.record(z.string(), z.enum(sandboxLevels)).optional(),
});

const liveWorkersOf = (entries: Readonly<Record<string, string>>, now: number): LiveWorker[] =>
  Object.entries(entries).flatMap(([id, text]) => {
    const [, beat, slots, info] = /^(\d+) (\d+) (.*)$/s.exec(text) ?? [];
    if (info === undefined || now - Number(beat) > silentAfterMs) return [];
    return [{ id, slots: Number(slots), ...workerInfo.parse(JSON.parse(info)) }];
  });

const statsOf = async (shard: ShardGate, now: number): Promise<Omit<JobTypeStats, 'type'>> => {
  const [[epoch, server, window, waiting], leased, workers, paused, serverId] = await Promise.all([
    shard.inspect.conf(),
    shard.inspect.leased(),
    shard.inspect.workers(),
    shard.inspect.isPaused(),
    shard.serverId(),
  ]);
  const alive = liveWorkersOf(workers, now);
  return {
    open: Boolean(epoch) && server === serverId,
    paused,
    waiting: Number(waiting ?? 0),
    leased,
    window: Number(window ?? 0),
    slots: alive.reduce((sum, worker) => sum + worker.slots, 0),
    workers: alive,
  };
};

const sumOf = (
  stats: readonly Omit<JobTypeStats, 'type'>[],
  field: 'waiting' | 'leased' | 'window' | 'slots',
): number => stats.reduce((sum, one) => sum + one[field], 0);

/** A worker serves every shard of its types: it is listed once. */
const mergedWorkers = (stats: readonly Omit<JobTypeStats, 'type'>[]): LiveWorker[] => {
  const merged = new Map<string, LiveWorker>();
  for (const worker of stats.flatMap((one) => one.workers)) {
    const known = merged.get(worker.id);
    merged.set(worker.id, {
      ...worker,
      slots: worker.slots + (known?.slots ?? 0),
      running: worker.running + (known?.running ?? 0),
    });
  }
  return [...merged.values()];
};

const redisNow = async (redis: Redis): Promise<number> => Number((await redis.time())[0]) * 1000;

const limitsIn = (text: string | null | undefined): Limits => {
  const [running = 0, waiting = 0] = (text ?? '').split(':').map(Number);
  return { running, waiting };
};

const loadsOf = async (shard: ShardGate, max: number): Promise<ProjectLoad[]> => {
  const [backlog, running] = await Promise.all([shard.inspect.backlog(max), shard.inspect.running()]);
  const queued = new Map<string, number>();
  for (let i = 0; i < backlog.length; i += 2) queued.set(backlog[i] ?? '', Number(backlog[i + 1]));
  const projects = [...new Set([...queued.keys(), ...Object.keys(running)])];
  if (projects.length === 0) return [];
  const limits = await shard.inspect.limits(projects);
  return projects.map((projectId, i) => ({
    projectId,
    ...limitsIn(limits[i]),
    leased: Number(running[projectId] ?? 0),
    queued: queued.get(projectId) ?? 0,
  }));
};

const statsWith = (redis: Redis, shards: ShardedGate['shards']): Pick<Gate, 'stats' | 'projects'> => ({
  stats: async (type) => {
    const now = await redisNow(redis);
    const stats = await Promise.all(shards(type).map((shard) => statsOf(shard, now)));
    return {
      type,
      open: stats.every((one) => one.open),
      paused: stats.every((one) => one.paused),
      waiting: sumOf(stats, 'waiting'),
      leased: sumOf(stats, 'leased'),
      window: sumOf(stats, 'window'),
      slots: sumOf(stats, 'slots'),
      workers: mergedWorkers(stats),
    };
  },
  projects: async (type, max) => {
    const loads = (await Promise.all(shards(type).map((shard) => loadsOf(shard, max)))).flat();
    return loads.sort((a, b) => b.queued - a.queued || b.leased - a.leased).slice(0, max);
  },
});

const absent: Place = { state: 'absent', position: null, reason: null };

const placesOf = async (jobs: readonly JobRef[], shardOfJob: (job: JobRef) => ShardGate): Promise<readonly Place[]> => {
  const found = new Map<string, Place>();
  const lookups = [...Map.groupBy(jobs, shardOfJob)].map(async ([shard, own]) => {
    const places = await shard.places(own);
    own.forEach(({ id }, i) => found.set(id, places[i] ?? absent));
  });
  await Promise.all(lookups);
  return jobs.map(({ id }) => found.get(id) ?? absent);
};

/** @param redis a connection for requests: what Redis cannot do at once is an error */
export const createGate = ({ redis, prefix, types, shardCount, rules, bullmqScripts }: GateOptions): ShardedGate => {
  const scripts = scriptsOn(redis, bullmqScripts);
  const openShards = (type: string): readonly ShardGate[] => {
    const limitsOf = (projectIds: readonly string[]) => rules.limitsOf(type, projectIds);
    return shardsOf(type, shardCount).map((shard) => new ShardGate({ redis, scripts, prefix, shard, limitsOf }));
  };
  const byType = new Map(types.map((type) => [type, openShards(type)]));
  const shards = (type: string): readonly ShardGate[] => byType.get(type) ?? [];
  const shardOfJob = ({ type, projectId }: Pick<JobRef, 'type' | 'projectId'>): ShardGate => {
    const shard = shards(type)[shardOf(projectId, shardCount)];
    if (shard === undefined) throw new Error(`there is no queue shard for ${type}`);
    return shard;
  };

  const rereadRules = async (type: string, projectId: string | undefined): Promise<void> => {
    const touched = projectId === undefined ? shards(type) : [shardOfJob({ type, projectId })];
    const projects = projectId === undefined ? [] : [projectId];
    await Promise.all(touched.map((shard) => settleRules(shard, rules, { type, projects })));
  };

  return {
    shards,
    ...statsWith(redis, shards),
    admit: (job, capped) => shardOfJob(job).admit(job, capped),
    withdraw: (job) => shardOfJob(job).withdraw([job]),
    drop: async (projectId) => {
      const dropped = types.filter((type) => type !== projectProvision.type);
      await Promise.all(dropped.map((type) => shardOfJob({ type, projectId }).drop(projectId)));
    },
    places: (jobs) => placesOf(jobs, shardOfJob),
    rulesChanged: async ({ type, projectId }) => {
      for (const each of type === undefined ? types : [type]) await rereadRules(each, projectId);
    },
    close: async () => {
      await Promise.all([...byType.values()].flat().map((shard) => shard.close()));
    },
  };
};
