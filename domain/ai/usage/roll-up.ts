import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { firstIdAt } from '#lib/ids.ts';
import { deleteOldHeartbeats, maxSum } from './call-store.ts';
import { deleteOldMonths, releaseLeftReservations } from './budget.ts';

/**
 * Calls of past days are added up in ai_usage_days. A day is so once it is over for a day and a minute: first it is
 * *closing*, from when on a call of it that ends all the same is noted in ai_usage_stale; a minute later, when every
 * statement that did not see that is over, it is added up. Noted days are added up again from their calls, never added
 * to.
 */

export const dayMs = 86_400_000;
const retentionDays = 90;
/** Ids are made a moment before or after a call's time. */
export const marginMs = 3_600_000;
/** Longer than any statement takes (14 s). */
const closingSeconds = 60;

export const dayText = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
/** The first instant of a day of `dayText`. */
export const dayBegins = (day: string): number => Date.parse(`${day}T00:00:00Z`);

/** The bounds of the ids of a day's calls, with a margin: what is of the day still has to be asked. */
const idsOf = (day: string): readonly [string, string] => [
  firstIdAt(dayBegins(day) - marginMs),
  firstIdAt(dayBegins(day) + dayMs + marginMs),
];

/** The columns of calls that are added up, and those of the sums. */
export const addedColumns = [
  'prompt_tokens',
  'completion_tokens',
  'cost_nano_usd',
  'cached_tokens',
  'cache_write_tokens',
  'reasoning_tokens',
] as const;

/** In the place of a key, in the sums of calls that were made without one: a primary key has no nulls. */
export const noKey = '00000000-0000-0000-0000-000000000000';

const totals = `
  insert into ai_usage_days
    (project_id, day, provider, model, kind, status, api_key_id, requests, ${addedColumns.join(', ')})
  select c.project_id, $1::date, c.provider, c.model, c.kind, c.status, coalesce(c.api_key_id, '${noKey}'), count(*),
    ${addedColumns.map((name) => `least(coalesce(sum(c.${name}), 0), ${maxSum})`).join(', ')}
  from ai_calls c join projects p on p.id = c.project_id
  where c.id >= $2 and c.id < $3 and (c.started_at at time zone 'utc')::date = $1::date and c.status <> 'open'`;
const grouped = 'group by c.project_id, c.provider, c.model, c.kind, c.status, c.api_key_id';

interface Rolled {
  readonly day: string;
  readonly closing: string;
  readonly is_closed: boolean;
}

const rolledOf = async (db: Queryable, lock = ''): Promise<Rolled> => {
  const [row] = await db.query<Rolled>(
    `select day::text, closing::text, closed_at < now() - make_interval(secs => ${closingSeconds}) as is_closed
     from ai_usage_rolled ${lock}`,
  );
  if (row === undefined) throw new Error('ai_usage_rolled has no row');
  return row;
};

/** The first day after `day` that has calls, at most `max`. */
const nextDayWithCalls = async (db: Queryable, day: string, max: string): Promise<string> => {
  const [row] = await db.query<{ started_at: Date }>(
    `select started_at from ai_calls where id >= $1 and (started_at at time zone 'utc')::date > $2::date
     order by id limit 1`,
    [firstIdAt(dayBegins(day) + dayMs - marginMs), day],
  );
  const next = row === undefined ? max : dayText(row.started_at.getTime());
  return next < max ? next : max;
};

/** Adds up the day that was closing, then lets the next one close. False: there is nothing to do yet. */
const rollNext = (db: ControlDb, newest: string): Promise<boolean> =>
  db.transaction(async (tx) => {
    const { day, closing, is_closed: isClosed } = await rolledOf(tx, 'for update');
    if (closing > day) {
      if (!isClosed) return false;
      await tx.query('delete from ai_usage_days where day = $1::date', [closing]);
      await tx.query(`${totals} ${grouped}`, [closing, ...idsOf(closing)]);
      await tx.query('update ai_usage_rolled set day = closing');
      return true;
    }
    if (day >= newest) return false;
    const next = await nextDayWithCalls(tx, day, newest);
    await tx.query('update ai_usage_rolled set closing = $1::date, closed_at = now()', [next]);
    return true;
  });

/** Adds up again the days in which calls ended late. */
const rollStale = async (db: ControlDb, today: string): Promise<void> => {
  const oldest = dayText(dayBegins(today) - retentionDays * dayMs);
  const stale = await db.query<{ project_id: string; day: string }>(
    `select s.project_id, s.day::text from ai_usage_stale s, ai_usage_rolled r where s.day <= r.day limit 1000`,
  );
  for (const { project_id: projectId, day } of stale) {
    await db.transaction(async (tx) => {
      // Before the calls are read: who ends one of them later waits for this, and notes it again.
      await tx.query('delete from ai_usage_stale where project_id = $1 and day = $2::date', [projectId, day]);
      // For days long ago the calls are deleted, and their sum remains.
      if (day <= oldest) return;
      await tx.query('delete from ai_usage_days where project_id = $1 and day = $2::date', [projectId, day]);
      await tx.query(`${totals} and c.project_id = $4 ${grouped}`, [day, ...idsOf(day), projectId]);
    });
  }
};

/** Adds up what can be; beside itself it does so once. */
export const rollUp = async (db: ControlDb, now = new Date()): Promise<void> => {
  const today = dayText(now.getTime());
  const newest = dayText(dayBegins(today) - 2 * dayMs);
  while (await rollNext(db, newest));
  await rollStale(db, today);
};

/** Deletes calls of long ago whose days are added up; answers how many there were. */
export const deleteOldCalls = async (db: Queryable, max: number, now = new Date()): Promise<number> => {
  const oldest = dayBegins(dayText(now.getTime())) - retentionDays * dayMs;
  const gone = await db.query(
    `delete from ai_calls where id in (
       select c.id from ai_calls c, ai_usage_rolled r
       where c.id < $1 and (c.started_at at time zone 'utc')::date <= r.day and c.status <> 'open'
         and not exists (
           select from ai_usage_stale s
           where s.project_id = c.project_id and s.day = (c.started_at at time zone 'utc')::date
         )
       order by c.id limit $2
     ) returning id`,
    [firstIdAt(oldest), max],
  );
  return gone.length;
};

/** The upkeep that runs once a minute beside closing lost calls and deleting old ones. */
export const sweepAiUsage = async (db: ControlDb): Promise<void> => {
  await releaseLeftReservations(db);
  await deleteOldHeartbeats(db);
  await deleteOldMonths(db);
  await rollUp(db);
};
