import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { isDependencyFailure } from '#lib/errors.ts';
import type { SandboxFacts } from '#queues/function-invoke.ts';
import type { Gate, JobTypeStats } from '#queues/gate/types.ts';
import { jobs as definitions } from '#queues/registry.ts';
import { cachedFor } from './ops-cached.ts';
import { type GlobalLimit, globalLimits } from './global-limits.ts';
import { type History, type Minute, createHistory } from './ops-charts.ts';
import {
  type ByType,
  type Counts,
  type RunningJob,
  byType,
  countsOf,
  jobTypes,
  oldestWaits,
  runningJobs,
} from './ops-counts.ts';

export interface FailureCount {
  readonly code: string;
  readonly count: number;
}

/** One job type. What only the gate knows is null while Redis is down. */
export interface QueueView {
  readonly type: string;
  readonly pool: string;
  readonly open: boolean | null;
  readonly paused: boolean | null;
  readonly waiting: number | null;
  readonly running: number | null;
  readonly window: number | null;
  /** The limit of the whole installation, as Postgres has it; null: none. */
  readonly limit: number | null;
  /** The limit that operators set in place of the setting. */
  readonly own_limit: number | null;
  readonly slots: number | null;
  readonly workers_alive: number | null;
  readonly oldest_wait_seconds: number | null;
  readonly accepted: { readonly minute: number; readonly hour: number };
  readonly finished: { readonly minute: number; readonly hour: number };
  /** Failures of the last hour, the most frequent first. */
  readonly failures: readonly FailureCount[];
  readonly dead: number;
  readonly wait_ms: { readonly p50: number | null; readonly p95: number | null };
}

export interface WorkerView {
  readonly id: string;
  readonly name: string;
  readonly started_at: Date;
  /** By language; null when it runs no functions. */
  readonly sandbox: SandboxFacts | null;
  readonly queues: readonly { readonly type: string; readonly slots: number; readonly running: number }[];
  /** Its running jobs; at most 500 over all workers. */
  readonly jobs: readonly RunningJob[];
}

/** The data behind the operators' page. */
export interface Snapshot {
  readonly at: Date;
  /** False: Redis does not answer, and what only the gate knows is missing. */
  readonly redis: boolean;
  readonly queues: readonly QueueView[];
  readonly workers: readonly WorkerView[];
}

export interface Overview {
  readonly snapshot: () => Promise<Snapshot>;
  readonly history: History;
}

const maxFailures = 8;

const failuresOf = (minutes: readonly Minute[], type: string): FailureCount[] => {
  const counts = new Map<string, number>();
  for (const { types } of minutes) {
    for (const [code, count] of types.get(type)?.failures ?? []) counts.set(code, (counts.get(code) ?? 0) + count);
  }
  return [...counts]
    .map(([code, count]) => ({ code, count }))
    .sort((a, b) => b.count - a.count)
    .slice(0, maxFailures);
};

const sumOf = (minutes: readonly Minute[], type: string, what: 'accepted' | 'finished'): number =>
  minutes.reduce((sum, { types }) => sum + (types.get(type)?.[what] ?? 0), 0);

type JobTypeFacts = Pick<QueueView, 'open' | 'paused' | 'waiting' | 'running' | 'window' | 'slots' | 'workers_alive'>;

const unknownStats: JobTypeFacts = {
  open: null,
  paused: null,
  waiting: null,
  running: null,
  window: null,
  slots: null,
  workers_alive: null,
};

const factsOf = (stats: JobTypeStats | undefined): JobTypeFacts =>
  stats === undefined
    ? unknownStats
    : {
        open: stats.open,
        paused: stats.paused,
        waiting: stats.waiting,
        running: stats.leased,
        window: stats.window,
        slots: stats.slots,
        workers_alive: stats.workers.length,
      };

const queueView = (
  { type, pool }: (typeof definitions)[number],
  stats: JobTypeStats | undefined,
  oldestWaitSeconds: number | null,
  { counts, limit }: { readonly counts: Counts; readonly limit: GlobalLimit | undefined },
): QueueView => {
  const [p50 = null, p95 = null] = counts.waits.get(type)?.quantiles ?? [];
  const rate = (what: 'accepted' | 'finished') => ({
    minute: counts[what].get(type)?.count ?? 0,
    hour: sumOf(counts.minutes, type, what),
  });
  return {
    type,
    pool,
    ...factsOf(stats),
    limit: limit?.limit ?? null,
    own_limit: limit?.own_limit ?? null,
    oldest_wait_seconds: oldestWaitSeconds,
    accepted: rate('accepted'),
    finished: rate('finished'),
    failures: failuresOf(counts.minutes, type),
    dead: counts.dead.get(type)?.count ?? 0,
    wait_ms: { p50, p95 },
  };
};

/** Null when Redis does not answer. */
const gateStatsOf = async (gate: Gate): Promise<ByType<JobTypeStats> | null> => {
  try {
    return byType(await Promise.all(jobTypes.map((type) => gate.stats(type))));
  } catch (error) {
    if (isDependencyFailure(error)) return null;
    throw error;
  }
};

const workersOf = async (db: Queryable, queues: Iterable<JobTypeStats>): Promise<WorkerView[]> => {
  const running = Map.groupBy(await runningJobs(db), (job) => job.worker_id);
  const workers = new Map<string, WorkerView & { queues: WorkerView['queues'][number][] }>();
  for (const stats of queues) {
    for (const { id, name, slots, running: count, startedAt, sandbox = null } of stats.workers) {
      const known = workers.get(id) ?? {
        id,
        name,
        started_at: new Date(startedAt),
        sandbox,
        queues: [],
        jobs: running.get(id) ?? [],
      };
      known.queues.push({ type: stats.type, slots, running: count });
      workers.set(id, { ...known, sandbox: known.sandbox ?? sandbox });
    }
  }
  return [...workers.values()].sort((a, b) => a.name.localeCompare(b.name) || a.id.localeCompare(b.id));
};

/** All operators' pages of this process share one overview, so that ten of them cost as much as one. */
export const createOverview = (db: ControlDb, gate: Gate): Overview => {
  const history = createHistory(db);
  const counts = cachedFor(4000, () => countsOf(db, history));
  const snapshot = async (): Promise<Snapshot> => {
    const [queues, oldest, counted, limits] = await Promise.all([
      gateStatsOf(gate),
      oldestWaits(db),
      counts(),
      globalLimits(db).then(byType),
    ]);
    const waiting = byType(oldest);
    return {
      at: new Date(),
      redis: queues !== null,
      queues: definitions.map((definition) => {
        const { type } = definition;
        return queueView(definition, queues?.get(type), waiting.get(type)?.seconds ?? null, {
          counts: counted,
          limit: limits.get(type),
        });
      }),
      workers: await workersOf(db, queues?.values() ?? []),
    };
  };
  return { snapshot: cachedFor(800, snapshot), history };
};
