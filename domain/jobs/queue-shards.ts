import { type ControlDb, type Queryable, one } from '#lib/control-db.ts';
import type { JobRef } from '#queues/define.ts';
import type { RetryPolicy } from '#queues/retry-policy.ts';
import { projectProvision } from '#queues/project-provision.ts';
import { isAbandoned } from './abandon.ts';
import { canContinue } from './steps.ts';

/** Which projects a shard holds when its type is spread over several: part `index` of `count`. */
export interface Part {
  readonly index: number;
  readonly count: number;
}

/** SQL for "its project is in this part", as `shardOf` in queues/gate/shards.ts has it. */
export const inPart = (count: string, index: string): string =>
  `(${count}::int = 1 or ('x' || right(project_id::text, 8))::bit(32)::bigint % ${count}::int = ${index}::int)`;

type Waiting = Pick<JobRef, 'id' | 'projectId' | 'priority' | 'awaited'>;

interface Row {
  readonly id: string;
  readonly project_id: string;
  readonly priority: number;
  /** Whether somebody waited for its end when it was accepted. */
  readonly awaited: boolean;
}

const waitingOf = (rows: readonly Row[]): Waiting[] =>
  rows.map((row) => ({ id: row.id, projectId: row.project_id, priority: row.priority, awaited: row.awaited }));

/**
 * Begins a new life of a shard. From here on no job of an earlier life can begin: the lock waits for those that begin
 * just now, and the next one sees the new number. Answers what runs at that moment.
 */
export const startShardEpoch = (
  db: ControlDb,
  shard: { readonly name: string; readonly type: string; readonly part: Part },
): Promise<{ epoch: number; running: Waiting[] }> =>
  db.transaction(async (tx) => {
    await tx.query('lock table queue_shards in access exclusive mode');
    const { epoch } = await one(
      tx.query<{ epoch: number }>(
        `insert into queue_shards (name, epoch) values ($1, 1)
         on conflict (name) do update set epoch = queue_shards.epoch + 1 returning epoch`,
        [shard.name],
      ),
    );
    const rows = await tx.query<Row>(
      `select id, project_id, priority, reply_to is not null as awaited from jobs
       where type = $1 and status = 'running' and ${inPart('$2', '$3')}`,
      [shard.type, shard.part.count, shard.part.index],
    );
    return { epoch, running: waitingOf(rows) };
  });

/** So long a leader leads that says nothing more. */
const leadSeconds = 5;
/** From one round of a leader to the next. */
const roundSeconds = 1;

/** A shard that a worker would lead. */
export interface Candidate {
  readonly name: string;
  readonly type: string;
  /** Whether it wants to know if jobs of the type wait. */
  readonly compares: boolean;
}

/** Facts that a leader gets together with its leadership, so that it queries nothing about a type without jobs. */
export interface Leadership {
  /** The shard's present life; 0 before its first. */
  readonly epoch: number;
  /** Whether jobs of the type are due, or will be before the next round. */
  readonly due: boolean;
  /** Whether jobs of the type run by their rows. */
  readonly running: boolean;
  /** Whether jobs of the type wait by their rows, at once or for a retry; false for who does not compare. */
  readonly waiting: boolean;
  /** Whether jobs wait for a place of their concurrency key. */
  readonly keyed: boolean;
  /** Whether jobs wait for their function to let them start. */
  readonly flowing: boolean;
}

// A row that another transaction changes right now belongs to a shard that has its leader. The subqueries on jobs have
// a limit, so that each stays one step in an index: an `exists` may be planned as a hash over all jobs.
const leadSql = `
  with free as materialized (
    select name from queue_shards
    where name = any ($2::text[]) and (leader = $1 or leader is null or leader_until < now())
    order by name for update skip locked
  ), led as (
    update queue_shards l set leader = $1, leader_until = now() + make_interval(secs => $5)
    from free where l.name = free.name returning l.name, l.epoch
  )
  select name, epoch,
    coalesce(
      (select true from jobs j where j.type = a.type and status = 'queued'
        and next_run_at <= now() + make_interval(secs => $6) limit 1),
      (select true from jobs j where j.type = a.type and status = 'waiting'
        and next_run_at <= now() + make_interval(secs => $6) limit 1)) is not null as due,
    (select true from jobs j where j.type = a.type and status = 'running' limit 1) is not null as running,
    a.compares and (select true from jobs j where j.type = a.type and status = 'queued' limit 1) is not null as waiting,
    (select true from jobs j where j.type = a.type and status = 'queued' and next_run_at = 'infinity'
      and concurrency_key is not null limit 1) is not null as keyed,
    (select true from jobs j where j.type = a.type and status = 'queued' and next_run_at = 'infinity'
      and flow_of is not null and slot_at is null limit 1) is not null as flowing
  from led join unnest($2::text[], $3::text[], $4::boolean[]) as a (name, type, compares) using (name)`;

/**
 * Takes or renews the leadership of shards: one worker at a time does a shard's upkeep. Postgres grants it, so that a
 * leader can reach the database that leading requires.
 * @returns by the shards' names; those that somebody else leads are absent
 */
export const claimLeadership = async (
  db: Queryable,
  shards: readonly Candidate[],
  workerId: string,
): Promise<ReadonlyMap<string, Leadership>> => {
  const rows = await db.query<Leadership & { readonly name: string }>(
    leadSql,
    [
      workerId,
      shards.map(({ name }) => name),
      shards.map(({ type }) => type),
      shards.map(({ compares }) => compares),
      leadSeconds,
      roundSeconds,
    ],
    'claim-leadership',
  );
  return new Map(rows.map(({ name, ...lead }) => [name, lead]));
};

/** A worker that goes leaves the lead to the next. */
export const releaseLeadership = async (db: Queryable, names: readonly string[], workerId: string): Promise<void> => {
  await db.query('update queue_shards set leader = null where name = any ($1) and leader = $2', [names, workerId]);
};

/** In one order, as several workers may do so at a time. */
export const ensureShards = async (db: Queryable, names: readonly string[]): Promise<void> => {
  await db.query(
    `insert into queue_shards (name) select name from unnest($1::text[]) as name order by name on conflict do nothing`,
    [names],
  );
};

/** A worker that cannot say in Redis that it lives says it here. */
export const noteSeen = async (db: Queryable, workerId: string): Promise<void> => {
  await db.query(
    `insert into job_workers (id) values ($1) on conflict (id) do update set seen_at = now()`,
    [workerId],
    'note-seen',
  );
};

export const sweepSeen = async (db: Queryable): Promise<void> => {
  await db.query(`delete from job_workers where seen_at < now() - interval '1 day'`);
};

/**
 * SQL: whether the jobs of its project are cancelled just now. One that was accepted late is admitted, and turned away.
 */
const isBeingCancelled = `(jobs.type <> '${projectProvision.type}'
  and (select p.deleted_at is not null and p.retired_at is null from projects p where p.id = jobs.project_id) is true)`;

/** Jobs that may run at once, by age: those after `after` and not after `until` (ids). */
export const waitingBetween = async (
  db: Queryable,
  range: {
    readonly type: string;
    readonly part: Part;
    readonly after: string;
    readonly until: string;
    readonly max: number;
  },
): Promise<Waiting[]> =>
  waitingOf(
    await db.query<Row>(
      `select id, project_id, priority, reply_to is not null as awaited from jobs
       where type = $1 and status = 'queued' and id > $2 and id <= $3 and next_run_at is null
         and ${inPart('$5', '$6')} and not ${isBeingCancelled} order by id limit $4`,
      [range.type, range.after, range.until, range.max, range.part.count, range.part.index],
      'waiting-jobs-between',
    ),
  );

/** Returns the state of each of these jobs; deleted jobs are absent. */
export const standings = async (
  db: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, 'queued' | 'later' | 'running' | 'ended'>> => {
  const rows = await db.query<{ id: string; standing: 'queued' | 'later' | 'running' | 'ended' }>(
    `select id, case
       when status = 'waiting' or (status = 'queued' and next_run_at > now()) then 'later'
       when status in ('queued', 'running') then status
       else 'ended' end as standing
     from jobs where id = any($1::uuid[])`,
    [ids],
    'job-standings',
  );
  return new Map(rows.map((row) => [row.id, row.standing]));
};

/** Jobs of that type that have run for some seconds by their rows; more than 10,000 are not asked for. */
export const runningSince = (
  db: Queryable,
  { type, part, seconds }: { readonly type: string; readonly part: Part; readonly seconds: number },
): Promise<{ id: string; run_id: string }[]> =>
  db.query<{ id: string; run_id: string }>(
    `select id, run_id from jobs where type = $1 and status = 'running' and run_id is not null and ${inPart('$2', '$3')}
       and started_at < now() - make_interval(secs => $4) limit 10000`,
    [type, part.count, part.index, seconds],
    'running-since',
  );

export interface SuspectRun {
  readonly id: string;
  readonly project_id: string;
  readonly run_id: string;
  readonly worker_id: string | null;
  readonly attempt: number;
  readonly crashes: number;
  readonly retry: RetryPolicy | null;
  /** It can be continued. */
  readonly has_steps: boolean;
  readonly concurrency_key: string | null;
  readonly reply_to: string | null;
  readonly cancelled: boolean;
  /** Its worker lives: Postgres saw it a moment ago. */
  readonly seen: boolean;
}

/** A worker that Postgres saw so recently lives, whatever its heartbeats in Redis. */
const seenSeconds = 10;

/** Jobs that run on none of these workers, or that somebody wants stopped: those of deleted projects, too. */
export const suspectRuns = (
  db: Queryable,
  { type, part, alive }: { readonly type: string; readonly part: Part; readonly alive: readonly string[] },
): Promise<SuspectRun[]> =>
  db.query<SuspectRun>(
    `select id, project_id, run_id, worker_id, attempt, crashes, reply_to, retry, ${canContinue} as has_steps,
       concurrency_key,
       cancel_requested_at is not null or ${isAbandoned} as cancelled,
       exists (select from job_workers w
         where w.id = jobs.worker_id and w.seen_at > now() - make_interval(secs => $5)) as seen
     from jobs where type = $1 and status = 'running' and ${inPart('$3', '$4')}
       and (worker_id is null or worker_id <> all($2::uuid[]) or cancel_requested_at is not null or ${isAbandoned})
     limit 1000`,
    [type, alive, part.count, part.index, seenSeconds],
    'suspect-runs',
  );
