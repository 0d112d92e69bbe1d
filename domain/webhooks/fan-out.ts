import type { QueryResultRow } from 'pg';
import { type Queryable, one } from '#lib/control-db.ts';
import { maxDataBytes } from './message.ts';
import type { EventRow } from './store.ts';

/** An event that steps of runs wait for; it may be deleted already. */
interface AwaitedRow extends Pick<EventRow, 'id' | 'project_id' | 'event'> {
  readonly created_at: string;
  /** Null: larger than a delivery may be. */
  readonly data: string | null;
}

/** The result of one pass. */
export interface FannedOut {
  readonly events: number;
  readonly deliveries: number;
  /** Webhooks that have something to do now. */
  readonly webhookIds: readonly string[];
  /** Webhooks with deliveries, too, whose throttles another transaction had locked: they are yet to be woken. */
  readonly lockedElsewhereIds: readonly string[];
  /** Behind which project the next pass begins; null: with the first one. */
  readonly next: string | null;
  /** How many of them each project had. */
  readonly eventsOf: Readonly<Record<string, number>>;
  /** Events that steps of runs wait for. */
  readonly awaited: readonly AwaitedRow[];
  /** How long the oldest of the events had waited, in ms. */
  readonly waitedMs: number;
}

/** Events of one project in one pass. */
const maxEvents = 200;
/**
 * Deliveries of all projects in one pass, more only where one event has more webhooks. New events wait for the end of a
 * pass: one of 2,000 deliveries took 70 to 180 ms on a busy machine.
 */
const maxDeliveries = 250;
const maxProjects = 100;
/** A pass compares the events that it takes with all steps that wait in their projects: so many count as a webhook. */
const stepsPerWebhook = 40;

// Projects with waiting events are found one by one in their index, however many events each has: one that has a
// million holds up no other.
const foundSql = `found as (
    (select project_id from outbox_events where fanned_at is null and project_id > $1 order by project_id limit 1)
    union all
    select (select e.project_id from outbox_events e
            where e.fanned_at is null and e.project_id > f.project_id order by e.project_id limit 1)
    from found f where f.project_id is not null
  )`;
const isMeant = '(project_id = any ($2::uuid[])) = $3::boolean';

// A project's share of a pass gets smaller with its webhooks and with the steps that wait for its events, and is half of
// it at most, or what one event makes. Who subscribes is asked once for all events of a name. Events that somebody else passes on just now are left
// to them; a throttle that somebody holds is not waited for: other projects' events would wait, too. Ids are given as
// arrays: joined, the larger table would be walked through whenever there might be many. Data are parsed once for all
// filters, and only where there is one; what cannot be parsed passes.
const fanOutSql = `
  with recursive ${foundSql}, turns as materialized (
    select project_id from found where project_id is not null and ${isMeant} limit ${maxProjects}
  ), sized as (
    select t.project_id, greatest(webhooks_up_to(t.project_id, ${maxDeliveries}), (
        select count(*) from (
          select from job_steps s where s.project_id = t.project_id and s.status = 'waiting' and s.event is not null
          limit ${maxDeliveries * stepsPerWebhook}) waiting) / ${stepsPerWebhook}) as hooks
    from turns t
  ), shares as (
    select project_id, greatest(1, hooks) as hooks, count(*) over () as projects,
      sum(part) over (order by project_id) - part as before
    from sized cross join lateral (select least(greatest(1, hooks), ${maxDeliveries / 2}) as part) as parts
  ), taken as materialized (
    select e.id, e.project_id, e.event, e.created_at
    from shares s cross join lateral (
      select id, project_id, event, created_at from outbox_events o
      where o.project_id = s.project_id and o.fanned_at is null
      order by o.id limit greatest(1, least(${maxEvents}, ${maxDeliveries} / (s.hooks * s.projects)))
      for update skip locked) e
    where s.before < ${maxDeliveries}
  ), awaited as materialized (
    select e.id, e.project_id, e.event, e.created_at,
      (select case when octet_length(o.data::text) <= ${maxDataBytes} then o.data::text end
       from outbox_events o where o.id = e.id) as data
    from taken e
    where exists (select from job_steps s where s.project_id = e.project_id and s.status = 'waiting'
      and s.event = any (event_patterns(e.event)))
    order by e.id
  ), heard as materialized (
    select h.project_id, h.ids, s.webhook_id, s.is_active, s.event, h.event as name,
      (select case when h.event like 'table.%' then w.filter_table else w.filter_other end
       from webhooks w where w.id = s.webhook_id) as filter
    from (select project_id, event, array_agg(id) as ids from taken group by project_id, event) as h
      cross join lateral subscribers(h.project_id, h.event) as s
  ), parsed as materialized (
    select id, event_json(data::text) as data from outbox_events
    where id = any (array(select unnest(ids) from heard where filter is not null))
  ), told as materialized (
    select e.id as event_id, project_id, webhook_id, is_active, event
    from heard cross join unnest(ids) as e (id)
    where filter is null or (
      select p.data is null or coalesce(jsonb_path_match(p.data, filter, jsonb_build_object('event', name), true), false)
      from parsed p where p.id = e.id)
    order by e.id
  ), made as (
    insert into webhook_deliveries (webhook_id, project_id, event_id, event, status, next_attempt_at, finished_at)
    select webhook_id, project_id, event_id, event, case when is_active then 'pending' else 'skipped' end,
      case when is_active then now() end, case when not is_active then now() end
    from told
    on conflict do nothing
    returning webhook_id, next_attempt_at
  ), passed_on as (
    update outbox_events set fanned_at = now() where id = any (array(select event_id from told))
  ), dropped as (
    -- Nobody subscribes any more.
    delete from outbox_events where id = any (array(select id from taken where id not in (select event_id from told)))
  ), locked as (
    select webhook_id from webhook_throttles
    where webhook_id = any (array(select distinct webhook_id from made where next_attempt_at is not null))
    order by webhook_id for update skip locked
  ), marked as (
    update webhook_throttles l set next_at = least(l.next_at, now()) from locked where l.webhook_id = locked.webhook_id
  )
  select (select count(*) from taken) as events, (select count(*) from made) as deliveries,
    array(select webhook_id::text from locked) as "webhookIds",
    array(select distinct webhook_id::text from made where next_attempt_at is not null
      and webhook_id not in (select webhook_id from locked)) as "lockedElsewhereIds",
    -- Whoever was cut off is first in the next pass.
    (select case when count(*) = ${maxProjects} or max(before) >= ${maxDeliveries}
      then max(project_id::text) filter (where before < ${maxDeliveries}) end from shares) as next,
    (select coalesce(json_object_agg(project_id, n), '{}')
      from (select project_id, count(*) as n from taken group by project_id) as counts) as "eventsOf",
    (select coalesce(json_agg(awaited), '[]') from awaited) as awaited,
    (select coalesce(extract(epoch from clock_timestamp() - min(created_at)) * 1000, 0)
      from taken)::float8 as "waitedMs"`;

const beginning = '00000000-0000-0000-0000-000000000000';

/** Projects whose events are meant: these only, or all but these. */
export type Which =
  | { readonly only: readonly string[]; readonly except?: never }
  | { readonly except: readonly string[]; readonly only?: never };

const everyProject: Which = { except: [] };
const asValues = ({ only, except }: Which): readonly [readonly string[], boolean] => [
  only ?? except ?? [],
  only !== undefined,
];

/** Whether any event waits. To be asked in a transaction that reads by index only. */
export const isEventWaiting = async (db: Queryable, which: Which = everyProject): Promise<boolean> =>
  (
    await db.query(
      `with recursive ${foundSql} select from found where project_id is not null and ${isMeant} limit 1`,
      [beginning, ...asValues(which)],
      'is-event-waiting',
    )
  ).length > 0;

/**
 * Makes the deliveries of some waiting events: one for each webhook that subscribes, and at once `skipped` where that
 * is inactive. Any number of processes may do so at a time; every project that waits has its turn.
 * @param after begins behind that project; null: with the first one
 * @param which projects' events; those of the others wait
 */
export const fanOut = (db: Queryable, after: string | null = null, which: Which = everyProject): Promise<FannedOut> =>
  one(db.query<FannedOut & QueryResultRow>(fanOutSql, [after ?? beginning, ...asValues(which)], 'fan-out'));

/**
 * From so many deliveries that wait, a project's events wait themselves: one event may be for thousands of webhooks.
 */
const maxPending = 1_000_000;
/**
 * From so many events that wait, a project's further ones stay in its own outbox, which refuses writes when it is full.
 */
const maxWaitingEvents = 100_000;

/**
 * Finds projects with waiting events that have too many waiting deliveries already. The cost grows with what waits, up
 * to the limit, so it is called every few seconds only.
 * @param max waiting deliveries of a project
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
