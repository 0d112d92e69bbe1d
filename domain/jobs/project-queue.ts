import { type ControlDb, one } from '#lib/control-db.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import { bounded, functionOf } from './filter.ts';
import { limitsOf } from './limits.ts';
import { heldFor } from './store.ts';

/** How the runs of a project's functions get on. */
export interface ProjectQueue {
  /** Counted up to 100,000. */
  readonly waiting: number;
  readonly running: number;
  /** How many may run at a time. */
  readonly limit: number;
  /** The longest wait of a job that could run; null: none waits. */
  readonly oldest_wait_ms: number | null;
  /** Runs that ended, on average of the last five minutes. */
  readonly per_minute: number;
  /** Failures in the last hour, the most first. */
  readonly failures: readonly { readonly function_id: string; readonly count: number }[];
  /** Jobs among those that wait that their function does not let start yet, by the reason. */
  readonly held: { readonly rate_limited: number; readonly debounce: number; readonly batch: number };
  /** When a job that is enqueued now might start; null: nothing has ended of late. */
  readonly estimated_start_ms: number | null;
}

const maxCounted = 100_000;
const maxFailures = 20;
const minutes = 5;

interface Counted {
  readonly waiting: number;
  readonly running: number;
  readonly oldest_wait_ms: number | null;
  readonly ended: number;
  readonly failures: ProjectQueue['failures'];
  readonly held: ProjectQueue['held'];
}

// Waiting jobs are counted within the index jobs_queued_of_project, ended ones from the newest back by jobs_project. An
// end of the last minutes may belong to a job that was accepted an hour ago; older ones are not looked for.
const countSql = `
  with latest as materialized (
    select status, finished_at, case when status in ('failed', 'dead', 'expired') then ${functionOf('j')} end as function_id
    from jobs j
    where project_id = $1 and type = '${functionInvoke.type}' and created_at > now() - interval '1 hour'
    order by created_at desc limit ${maxCounted}
  )
  select
    (select count(*)::int from (
      select from jobs where project_id = $1 and status = 'queued' and type = '${functionInvoke.type}'
      limit ${maxCounted}) counted) as waiting,
    (select count(*)::int from jobs where project_id = $1 and status = 'running' and type = '${functionInvoke.type}')
      as running,
    (select extract(epoch from now() - min(coalesce(next_run_at, queued_at))) * 1000 from (
      select next_run_at, queued_at from jobs
      where project_id = $1 and status = 'queued' and type = '${functionInvoke.type}'
        and (next_run_at is null or next_run_at <= now())
      limit ${maxCounted}) due)::float8 as oldest_wait_ms,
    (select json_build_object('rate_limited', count(*) filter (where held_for = 'rate_limited'),
        'debounce', count(*) filter (where held_for = 'debounce'), 'batch', count(*) filter (where held_for = 'batch'))
      from (
        select ${heldFor('h')} as held_for from jobs h
        where project_id = $1 and status = 'queued' and type = '${functionInvoke.type}' and flow_of is not null
        limit ${maxCounted}) counted) as held,
    (select count(*)::int from latest where finished_at > now() - interval '${minutes} minutes') as ended,
    (select coalesce(json_agg(f), '[]') from (
      select function_id, count(*)::int as count from latest
      where function_id is not null
      group by function_id order by count(*) desc, function_id limit ${maxFailures}) f) as failures`;

const estimateOf = ({ waiting, running, ended }: Counted, limit: number): number | null => {
  if (running < limit && waiting === 0) return 0;
  return ended === 0 ? null : Math.round((waiting / ended) * minutes * 60_000);
};

/** @throws {ServiceError} `validation_failed` when counting takes longer than three seconds */
export const projectQueue = (db: ControlDb, projectId: string): Promise<ProjectQueue> =>
  bounded(db, async (tx) => {
    const counted = await one(tx.query<Counted>(countSql, [projectId]));
    const limits = await limitsOf(tx, functionInvoke, { projectIds: [projectId], waitingJobs: 0 });
    const limit = limits.get(projectId)?.running ?? 0;
    const { waiting, running, oldest_wait_ms: oldest, failures, held } = counted;
    return {
      waiting,
      running,
      limit,
      oldest_wait_ms: oldest === null ? null : Math.max(0, Math.round(oldest)),
      per_minute: counted.ended / minutes,
      failures,
      held,
      estimated_start_ms: estimateOf(counted, limit),
    };
  });
