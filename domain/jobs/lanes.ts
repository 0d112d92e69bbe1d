import { type ControlDb, type Queryable, maybeOne, one } from '#lib/control-db.ts';
import type { JobRef } from '#queues/define.ts';
import { type Part, inPart } from './part.ts';

type Waiting = Pick<JobRef, 'id' | 'projectId'>;

interface Row {
  readonly id: string;
  readonly project_id: string;
}

const waitingOf = (rows: readonly Row[]): Waiting[] => rows.map((row) => ({ id: row.id, projectId: row.project_id }));

/**
 * Begins a new life of a lane. From here on no job of an earlier life can begin: the lock waits for those that begin
 * just now, and the next one sees the new number. Answers what runs at that moment.
 */
export const beginLaneLife = (
  db: ControlDb,
  lane: { readonly name: string; readonly type: string; readonly part: Part },
): Promise<{ epoch: number; running: Waiting[] }> =>
  db.transaction(async (tx) => {
    await tx.query('lock table job_lanes in access exclusive mode');
    const { epoch } = await one(
      tx.query<{ epoch: number }>(
        `insert into job_lanes (name, epoch) values ($1, 1)
         on conflict (name) do update set epoch = job_lanes.epoch + 1 returning epoch`,
        [lane.name],
      ),
    );
    const rows = await tx.query<Row>(
      `select id, project_id from jobs where type = $1 and status = 'running' and ${inPart('$2', '$3')}`,
      [lane.type, lane.part.count, lane.part.index],
    );
    return { epoch, running: waitingOf(rows) };
  });

/** So long a leader leads that says nothing more. */
const leadSeconds = 5;

/**
 * Takes or keeps the lead of a lane: one worker at a time does what only one needs to do. It is given in Postgres, so that
 * whoever leads can reach what leading needs.
 * @returns the lane's present life (0 before its first), or null when somebody else leads
 */
export const leadLane = async (db: Queryable, name: string, workerId: string): Promise<number | null> => {
  const asked = db.query<{ epoch: number }>(
    `update job_lanes set leader = $2, leader_until = now() + make_interval(secs => $3)
     where name = $1 and (leader = $2 or leader is null or leader_until < now()) returning epoch`,
    [name, workerId, leadSeconds],
    'lead-lane',
  );
  return (await maybeOne(asked))?.epoch ?? null;
};

/** A worker that goes leaves the lead to the next. */
export const leaveLane = async (db: Queryable, name: string, workerId: string): Promise<void> => {
  await db.query('update job_lanes set leader = null where name = $1 and leader = $2', [name, workerId]);
};

export const ensureLane = async (db: Queryable, name: string): Promise<void> => {
  await db.query('insert into job_lanes (name) values ($1) on conflict do nothing', [name]);
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

/** Jobs that may run at once, by age: those after `after` and not after `until` (ids). */
export const waitingBetween = async (
  db: Queryable,
  range: {
    readonly type: string;
    readonly part: Part;
    readonly after: string;
    readonly until: string;
    readonly most: number;
  },
): Promise<Waiting[]> =>
  waitingOf(
    await db.query<Row>(
      `select id, project_id from jobs
       where type = $1 and status = 'queued' and id > $2 and id <= $3 and next_run_at is null
         and ${inPart('$5', '$6')} order by id limit $4`,
      [range.type, range.after, range.until, range.most, range.part.count, range.part.index],
      'waiting-jobs-between',
    ),
  );

/** Of these jobs, where each stands: absent ones are gone. */
export const standings = async (
  db: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, 'queued' | 'later' | 'running' | 'ended'>> => {
  const rows = await db.query<{ id: string; standing: 'queued' | 'later' | 'running' | 'ended' }>(
    `select id, case
       when status = 'queued' and next_run_at > now() then 'later'
       when status in ('queued', 'running') then status
       else 'ended' end as standing
     from jobs where id = any($1::uuid[])`,
    [ids],
    'job-standings',
  );
  return new Map(rows.map((row) => [row.id, row.standing]));
};

export interface SuspectRun {
  readonly id: string;
  readonly project_id: string;
  readonly run_id: string;
  readonly worker_id: string | null;
  readonly attempt: number;
  readonly crashes: number;
  readonly reply_to: string | null;
  readonly cancelled: boolean;
  /** Its worker lives: Postgres saw it a moment ago. */
  readonly seen: boolean;
}

/** A worker that Postgres saw so lately lives, whatever is heard of it in Redis. */
const seenSeconds = 10;

/** Jobs that run on none of these workers, or that somebody wants stopped. */
export const suspectRuns = (
  db: Queryable,
  { type, part, alive }: { readonly type: string; readonly part: Part; readonly alive: readonly string[] },
): Promise<SuspectRun[]> =>
  db.query<SuspectRun>(
    `select id, project_id, run_id, worker_id, attempt, crashes, reply_to, cancel_requested_at is not null as cancelled,
       exists (select from job_workers w
         where w.id = jobs.worker_id and w.seen_at > now() - make_interval(secs => $5)) as seen
     from jobs where type = $1 and status = 'running' and ${inPart('$3', '$4')}
       and (worker_id is null or worker_id <> all($2::uuid[]) or cancel_requested_at is not null) limit 1000`,
    [type, alive, part.count, part.index, seenSeconds],
    'suspect-runs',
  );
