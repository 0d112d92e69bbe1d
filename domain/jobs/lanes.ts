import { type ControlDb, type Queryable, maybeOne, one } from '#lib/control-db.ts';
import type { JobRef } from '#queues/define.ts';

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
  lane: { readonly name: string; readonly type: string },
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
    const rows = await tx.query<Row>(`select id, project_id from jobs where type = $1 and status = 'running'`, [
      lane.type,
    ]);
    return { epoch, running: waitingOf(rows) };
  });

/** The present life of a lane; null before its first. */
export const epochOf = async (db: Queryable, name: string): Promise<number | null> => {
  const asked = db.query<{ epoch: number }>('select epoch from job_lanes where name = $1', [name], 'lane-epoch');
  return (await maybeOne(asked))?.epoch ?? null;
};

/** Jobs that may run at once, by age: those after `after` and not after `until` (ids). */
export const waitingBetween = async (
  db: Queryable,
  range: { readonly type: string; readonly after: string; readonly until: string; readonly most: number },
): Promise<Waiting[]> =>
  waitingOf(
    await db.query<Row>(
      `select id, project_id from jobs
       where type = $1 and status = 'queued' and id > $2 and id <= $3 and next_run_at is null order by id limit $4`,
      [range.type, range.after, range.until, range.most],
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
  readonly crashes: number;
  readonly reply_to: string | null;
  readonly cancelled: boolean;
}

/** Jobs that run on none of these workers, or that somebody wants stopped. */
export const suspectRuns = (db: Queryable, type: string, alive: readonly string[]): Promise<SuspectRun[]> =>
  db.query<SuspectRun>(
    `select id, project_id, run_id, worker_id, crashes, reply_to, cancel_requested_at is not null as cancelled
     from jobs where type = $1 and status = 'running'
       and (worker_id is null or worker_id <> all($2::uuid[]) or cancel_requested_at is not null) limit 1000`,
    [type, alive],
    'suspect-runs',
  );
