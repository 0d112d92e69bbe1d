import type { Queryable } from '#lib/control-db.ts';

/** From so many deliveries that wait, a project's events wait themselves: one event may be for thousands of webhooks. */
export const maxPending = 1_000_000;
/** From so many events that wait, a project's further ones stay in its own outbox, which refuses writes when it is full. */
export const maxWaitingEvents = 100_000;

/**
 * Of the projects with waiting events those whose deliveries are not to become more now. What it costs grows with what
 * waits, up to the limit: it is asked every few seconds.
 * @param max deliveries that wait
 */
export const backlogged = async (db: Queryable, max = maxPending): Promise<string[]> => {
  const rows = await db.query<{ project_id: string }>(
    `with recursive found as (
       (select project_id from outbox_events where fanned_at is null order by project_id limit 1)
       union all
       select (select e.project_id from outbox_events e
               where e.fanned_at is null and e.project_id > f.project_id order by e.project_id limit 1)
       from found f where f.project_id is not null
     )
     select f.project_id from found f
     where f.project_id is not null and (select count(*) from (
       select from webhooks w cross join lateral (
         select from webhook_deliveries d
         where d.webhook_id = w.id and d.next_attempt_at is not null and d.job_id is null limit $1::int) as of_one
       where w.project_id = f.project_id limit $1::int) as pending) >= $1::int`,
    [max],
    'backlogged-projects',
  );
  return rows.map((row) => row.project_id);
};

/** Whether so many of a project's events wait to be passed on that no more are to be taken from its outbox. */
export const hasWaitingEvents = async (db: Queryable, projectId: string, max = maxWaitingEvents): Promise<boolean> => {
  const rows = await db.query(
    'select from outbox_events where project_id = $1 and fanned_at is null order by project_id, id offset $2 limit 1',
    [projectId, max],
    'has-waiting-events',
  );
  return rows.length > 0;
};
