import type { ControlDb, Queryable, Tx } from '#lib/control-db.ts';
import type { JobRef } from '#queues/define.ts';
import { type Part, inPart } from './queue-shards.ts';

/*
 * Concurrency keys. A job with a key waits as a row that is due at 'infinity', and is given to the gate when fewer jobs
 * of its key hold a place than it allows. A place is held by a job that runs, and by one that was given to the gate. So
 * the number follows from the rows: no count can be wrong after a crash.
 */

/** Keys of one project whose waiting jobs may get places. */
export interface Keys {
  readonly type: string;
  readonly projectId: string;
  readonly keys: readonly string[];
}

/** Until the transaction ends, nobody else gives places of this project. */
const lockPlaces = async (tx: Tx, projectId: string): Promise<void> => {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('concurrency keys ' || $1, 0))`, [projectId]);
};

/** Jobs whose function has not let them start yet are not asked. */
const hasSlot = (job: string): string =>
  `${job}.concurrency_key is not null and ${job}.batch_id is null and (${job}.flow_of is null or ${job}.slot_at is not null)`;

// A job stays behind while too many of its key hold places, and so do those behind it. Each job brings its own number.
const givePlaces = `
  update jobs set next_run_at = null from (
    select next.id from unnest($3::text[]) as asked (key)
    cross join lateral (
      select count(*)::int as number from (
        select from jobs h where h.project_id = $1 and h.concurrency_key = asked.key and h.concurrency_key is not null
          and (h.status = 'running' or (h.status = 'queued' and h.next_run_at is null)) limit 1001) places
    ) held
    cross join lateral (
      select w.id, w.concurrency, row_number() over (order by w.priority desc, w.id) as nth from jobs w
      where w.project_id = $1 and w.concurrency_key = asked.key and w.status = 'queued' and w.next_run_at = 'infinity'
        and w.type = $2 and ${hasSlot('w')}
      order by w.priority desc, w.id limit 1000
    ) next
    where held.number + next.nth <= next.concurrency
  ) free
  where jobs.id = free.id and jobs.status = 'queued' and jobs.next_run_at = 'infinity'
  returning jobs.id, jobs.priority`;

/** Gives the free places of keys to the jobs that are next. Answers these, for the gate. */
export const admitKeyed = (db: ControlDb, { type, projectId, keys }: Keys): Promise<JobRef[]> =>
  db.transaction(async (tx) => {
    await lockPlaces(tx, projectId);
    // A statement of its own: what it counts is not older than the lock.
    const rows = await tx.query<{ id: string; priority: number }>(
      givePlaces,
      [projectId, type, [...new Set(keys)]],
      'give-places',
    );
    return rows.map(({ id, priority }) => ({ id, type, projectId, priority }));
  });

/** Keys that a pass looks at: one step in an index for each. */
const maxKeys = 1000;

/** The position up to which keys were looked at; null: at the beginning. */
export interface KeysAfter {
  readonly projectId: string;
  readonly key: string;
}

/** SQL: the first key with jobs that wait for a place behind some other one. */
const step = (behind: string): string => `
  select project_id, concurrency_key from jobs
  where type = $5 and status = 'queued' and next_run_at = 'infinity' and concurrency_key is not null and ${behind}
  order by project_id, concurrency_key limit 1`;

/**
 * Keys with jobs that wait for a place, each found by one step in the index, behind those that were found before.
 * @returns no more than 1,000 of them, by project
 */
export const waitingKeys = async (
  db: Queryable,
  { type, part, after }: { readonly type: string; readonly part: Part; readonly after: KeysAfter | null },
): Promise<{ readonly found: readonly Keys[]; readonly last: KeysAfter | null }> => {
  const rows = await db.query<{ project_id: string; key: string; is_ours: boolean }>(
    `with recursive keys as (
       (${step('(project_id, concurrency_key) > ($1::uuid, $2::text)')})
       union all
       select n.* from keys k cross join lateral (
         ${step('(project_id, concurrency_key) > (k.project_id, k.concurrency_key)')}) n)
     select project_id, concurrency_key as key, ${inPart('$3', '$4')} as is_ours from keys limit ${maxKeys}`,
    [after?.projectId ?? '00000000-0000-0000-0000-000000000000', after?.key ?? '', part.count, part.index, type],
    'waiting-keys',
  );
  const byProject = Map.groupBy(
    rows.filter(({ is_ours: isOurs }) => isOurs),
    (row) => row.project_id,
  );
  const found = [...byProject].map(([projectId, own]) => ({ type, projectId, keys: own.map(({ key }) => key) }));
  const lastRow = rows.length === maxKeys ? rows.at(-1) : undefined;
  return { found, last: lastRow ? { projectId: lastRow.project_id, key: lastRow.key } : null };
};
