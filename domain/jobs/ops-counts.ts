import type { Queryable } from '#lib/control-db.ts';
import { jobs as definitions } from '#queues/registry.ts';
import { firstIdAt } from '#lib/ids.ts';
import { functionOf } from './ops-filter.ts';
import { waitingSince } from './oldest-wait.ts';
import type { History, Minute } from './ops-charts.ts';

/** Every type of job, in the registry's order. */
export const jobTypes: readonly string[] = definitions.map(({ type }) => type);

export interface RunningJob {
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

export type ByType<T> = ReadonlyMap<string, T>;

export const byType = <Row extends { readonly type: string }>(rows: readonly Row[]): ByType<Row> =>
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
export interface Counts {
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
