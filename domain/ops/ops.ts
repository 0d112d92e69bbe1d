/*
 * The operators' views of the whole installation, above every other folder of domain/. This file has the snapshot of
 * all queues and workers, one per second for everybody who is subscribed. charts.ts counts the last hour by minutes;
 * trouble.ts says what is wrong now and lists schedules that are due; search.ts finds jobs and projects; bulk.ts
 * retries and cancels many jobs; projects.ts shows each project's load and sets its limits and pauses.
 */
import { type GlobalLimit, globalLimits } from '#domain/jobs/limits.ts';
import { waitingSince } from '#domain/jobs/store.ts';
import { cachedFor } from '#lib/cached-for.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { isDependencyFailure } from '#lib/errors.ts';
import { firstIdAt } from '#lib/ids.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { SandboxFacts } from '#queues/function-invoke.ts';
import type { Gate, JobTypeStats } from '#queues/gate/types.ts';
import { jobs as definitions } from '#queues/registry.ts';
import { type History, type Minute, createHistory } from './charts.ts';
import { functionOf } from '#domain/jobs/filter.ts';

interface FailureCount {
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

interface WorkerView {
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

/** Every type of job, in the registry's order. */
export const jobTypes: readonly string[] = definitions.map(({ type }) => type);

interface RunningJob {
  readonly id: string;
  readonly type: string;
  readonly project_id: string;
  readonly project_name: string | null;
  /** Null for other jobs than runs of functions, and when the function was deleted. */
  readonly function_name: string | null;
  readonly attempt: number;
  readonly started_at: Date | null;
}

const maxRunning = 500;
const waitSample = 5000;
/** Counting 100,000 entries of an index takes 20 ms; a dead flood must not make each poll cost seconds. */
const maxDead = 100_000;

type ByType<T> = ReadonlyMap<string, T>;

const byType = <Row extends { readonly type: string }>(rows: readonly Row[]): ByType<Row> =>
  new Map(rows.map((row) => [row.type, row]));

/** How long the job that waits longest of each type has waited, as the metrics say; types without one are left out. */
export const oldestWaits = (db: Queryable) =>
  db.query<{ type: string; seconds: number }>(
    `select type, greatest(0, extract(epoch from now() - since))::float8 as seconds
     from (select type, ${waitingSince('t.type')} as since from unnest($1::text[]) as t (type)) waits
     where since is not null`,
    [jobTypes],
    'ops-oldest-waits',
  );

const deadCounts = (db: Queryable) =>
  db.query<{ type: string; count: number }>(
    `select type, count(*)::int as count
     from (select type from jobs where status = 'dead' order by id limit $1) counted group by type`,
    [maxDead],
    'ops-dead-counts',
  );

const acceptedLately = (db: Queryable) =>
  db.query<{ type: string; count: number }>(
    'select type, count(*)::int as count from jobs where id >= $1 group by type',
    [firstIdAt(Date.now() - 60_000)],
  );

const finishedLately = (db: Queryable) =>
  db.query<{ type: string; count: number }>(
    `select type, count(*)::int as count from jobs
     where status in ('succeeded', 'failed', 'cancelled', 'expired', 'dead')
       and finished_at > now() - interval '1 minute' group by type`,
  );

/** Counts the newest 5,000 successes and as many failures within an hour, so that it costs the same at any load. */
const waits = (db: Queryable) =>
  db.query<{ type: string; quantiles: [number, number] }>(
    `select j.type, percentile_cont(array[0.5, 0.95]) within group
       (order by extract(epoch from j.started_at - j.queued_at)::float8 * 1000) as quantiles
     from unnest(array['succeeded', 'failed']) as s (status) cross join lateral (
       select type, queued_at, started_at from jobs
       where status = s.status and finished_at > now() - interval '1 hour' order by finished_at desc limit $1
     ) j where j.started_at is not null group by j.type`,
    [waitSample],
  );

/** The counts of each type, from the rows alone. */
interface Counts {
  readonly dead: ByType<{ count: number }>;
  readonly accepted: ByType<{ count: number }>;
  readonly finished: ByType<{ count: number }>;
  readonly waits: ByType<{ quantiles: [number, number] }>;
  readonly minutes: readonly Minute[];
}

export const countsOf = async (db: Queryable, history: History): Promise<Counts> => {
  const [dead, accepted, finished, quantiles, minutes] = await Promise.all([
    deadCounts(db),
    acceptedLately(db),
    finishedLately(db),
    waits(db),
    history.minutes(),
  ]);
  return {
    dead: byType(dead),
    accepted: byType(accepted),
    finished: byType(finished),
    waits: byType(quantiles),
    minutes,
  };
};

/** Running jobs, the longest-running first. */
export const runningJobs = (db: Queryable) =>
  db.query<RunningJob & { worker_id: string | null }>(
    `select j.id, j.type, j.project_id, p.name as project_name, f.name as function_name, j.attempt, j.started_at,
       j.worker_id
     from (select * from jobs where status = 'running' order by started_at limit $1) j
     left join projects p on p.id = j.project_id
     left join functions f on f.id = (${functionOf('j')})::uuid
     order by j.started_at`,
    [maxRunning],
    'ops-running-jobs',
  );

/** One who listens to the snapshots: gets each as it is made, or null when it could not be made. */
type Listener = (snapshot: Snapshot | null) => void;

export interface Live {
  /** @returns stops listening */
  readonly listen: (listener: Listener) => () => void;
}

const everyMs = 1000;

/** One snapshot a second for all listeners; without listeners nothing runs. */
export const createLive = ({ snapshot }: Pick<Overview, 'snapshot'>): Live => {
  const listeners = new Set<Listener>();
  let poller: Poller | undefined;

  const notify = async (): Promise<void> => {
    const made = await snapshot().catch(() => null);
    for (const listener of listeners) listener(made);
  };

  return {
    listen: (listener) => {
      listeners.add(listener);
      if (poller === undefined) poller = startPoller(notify, { everyMs, onFailure: () => undefined });
      else poller.wake();
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        void poller?.stop();
        poller = undefined;
      };
    },
  };
};
