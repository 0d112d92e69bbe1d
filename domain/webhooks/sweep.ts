import { actingAs } from '#domain/audit/actor.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { firstIdAt } from '#lib/ids.ts';

/**
 * Makes throttles due that have work and no due time, because the process that should have set it died.
 * @returns how many
 */
export const wakeForgottenThrottles = async (db: Queryable): Promise<number> => {
  const woken = await db.query(
    `update webhook_throttles l set next_at = now() where l.webhook_id in (
       select f.webhook_id from webhook_throttles f where f.next_at is null
         and not exists (select from webhook_deliveries d where d.webhook_id = f.webhook_id and d.job_id is not null)
         and exists (select from webhook_deliveries d
           where d.webhook_id = f.webhook_id and d.next_attempt_at is not null and d.job_id is null)
       order by f.webhook_id for update skip locked)
     returning l.webhook_id`,
  );
  return woken.length;
};

/** The age up to which `wakeLatelyForgotten` searches. */
export const latelyMs = 20_000;
/**
 * However many were made in that time: a replay, or an event with thousands of webhooks, is no reason to read them all.
 */
const maxRead = 50_000;

/**
 * As `wakeForgottenThrottles`, for recent deliveries: cheap enough to run every few seconds. Their process died before
 * it woke a throttle that another transaction had locked. Not prepared: a plan for a small table would be kept for a
 * large one.
 * @returns how many
 */
export const wakeLatelyForgotten = async (db: Queryable, now = Date.now()): Promise<number> => {
  const woken = await db.query(
    `update webhook_throttles l set next_at = now() where l.webhook_id in (
       select f.webhook_id from webhook_throttles f where f.next_at is null and f.webhook_id = any (array(
         select distinct webhook_id from (
           select webhook_id, next_attempt_at, job_id from webhook_deliveries
           where id > $1::uuid order by id desc limit ${maxRead}) as made
         where next_attempt_at is not null and job_id is null))
       order by f.webhook_id for update skip locked)
     returning l.webhook_id`,
    [firstIdAt(now - latelyMs)],
  );
  return woken.length;
};

interface KeptDays {
  /** Days for deliveries that succeeded. */
  readonly delivered: number;
  /** Days for all others, including those that were never tried. */
  readonly undelivered: number;
}

// An event goes with the last of its deliveries. Of two sweeps that delete the last two, each leaves it to the other
// one: such events go later.
const deleteSql = (which: string): string => `
  with old as materialized (${which}), gone as (
    delete from webhook_deliveries where id in (select id from old) returning event_id
  ), empty as (
    delete from outbox_events e where e.id in (select event_id from old) and e.fanned_at is not null
      and not exists (select from webhook_deliveries d where d.event_id = e.id and d.id not in (select id from old))
  )
  select event_id from gone`;

/**
 * Deletes deliveries that are kept no longer, some at a time, never one that is to be tried again; answers how many.
 */
export const deleteOldDeliveries = async (
  db: Queryable,
  { delivered, undelivered }: KeptDays,
  max: number,
): Promise<number> => {
  const gone = await db.query(
    deleteSql(`
      select id, event_id from webhook_deliveries
      where finished_at < now() - make_interval(days => least($1::int, $2::int))
        and finished_at < now() - make_interval(days => case status when 'success' then $1::int else $2::int end)
        and next_attempt_at is null and job_id is null
      order by finished_at limit $3 for update skip locked`),
    [delivered, undelivered, max],
  );
  return gone.length;
};

/** Deletes deliveries of webhooks that were deleted, or whose project was, some at a time; answers how many. */
export const deleteOrphanedDeliveries = async (db: Queryable, max: number): Promise<number> => {
  const gone = await db.query(
    deleteSql(`
      select d.id, d.event_id from (
        select w.id from webhooks w join projects p on p.id = w.project_id
        where w.deleted_at is not null or p.deleted_at is not null) w
      cross join lateral (
        select id, event_id from webhook_deliveries where webhook_id = w.id limit $1 for update skip locked) d
      limit $1`),
    [max],
  );
  return gone.length;
};

const asSystem = actingAs({ type: 'system' }, 'webhook.purge');

/** Deletes the rows of deleted webhooks that have no deliveries any more; answers how many. */
export const deleteEmptyWebhooks = async (db: ControlDb, max: number): Promise<number> =>
  db.transaction(async (tx) => {
    const gone = await tx.query(
      `delete from webhooks where id in (
         select w.id from webhooks w join projects p on p.id = w.project_id
         where (w.deleted_at is not null or p.deleted_at is not null)
           and not exists (select from webhook_deliveries d where d.webhook_id = w.id)
         limit $1 for update of w skip locked)
       returning id`,
      [max],
    );
    return gone.length;
  }, asSystem);

/** A delivery may be tried for so many days before its own time begins. */
const maxTriedDays = 5;

/** Deletes events that have no deliveries any more, and have been kept longer than any of them is; answers how many. */
export const deleteEmptyEvents = async (db: Queryable, { undelivered }: KeptDays, max: number): Promise<number> => {
  const gone = await db.query(
    `delete from outbox_events where id in (
       select e.id from outbox_events e
       where e.fanned_at < now() - make_interval(days => $1)
         and not exists (select from webhook_deliveries d where d.event_id = e.id)
       order by e.fanned_at limit $2 for update skip locked)
     returning id`,
    [undelivered + maxTriedDays, max],
  );
  return gone.length;
};

/**
 * For the operators: how long the oldest event waits for its deliveries, in seconds, and how many webhooks only fail.
 */
export const backlogOf = async (
  db: Queryable,
): Promise<{ readonly oldestSeconds: number; readonly failingWebhooks: number }> => {
  const [row] = await db.query<{ oldest: number; failing: number }>(
    `select (select coalesce(extract(epoch from now() - min(created_at)), 0) from (
         select created_at from outbox_events where fanned_at is null order by project_id, id limit 1000
       ) as waiting)::float8 as oldest,
       (select count(*) from webhook_throttles where closed_until > now()) as failing`,
  );
  return { oldestSeconds: row?.oldest ?? 0, failingWebhooks: row?.failing ?? 0 };
};
