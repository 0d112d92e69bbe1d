import type { Queryable } from '#lib/control-db.ts';
import { webhookDeliver } from '#queues/webhook-deliver.ts';

const plans = webhookDeliver.running;

/** Of a project `p` with its limits `j`: how many tries it may have running. */
export const runningSql = `coalesce(j.running, case p.plan
  when 'free' then ${plans.free} when 'pro' then ${plans.pro} else ${plans.enterprise} end)`;

/** How many of its webhooks that are not quick may have a try under way, each one. */
export const shareSql = `greatest(2, ${runningSql} / 4)`;

/** Within so many ms a success is a quick one. A try that fails later than that counts as two failures: it held a slot. */
export const quickMs = 2000;

/**
 * Webhooks of `state`, the lanes `$1`, that are not quick and have something to do, each with its place among those of its
 * project. Those with a try under way are first, then who has waited longest. Two processes at a time may give one place
 * twice.
 */
export const slowSql = `
  select s.webhook_id, s.project_id, s.share, s.under_way, others.busy + row_number() over (
      partition by s.project_id order by s.under_way > 0 desc, s.waits_since nulls last, s.webhook_id) as place
  from state s join (
      select project_id, (select count(*) from webhook_lanes o
        where o.slow_in = p.project_id and o.waits_since is null and o.webhook_id <> all ($1::uuid[])) as busy
      from (select distinct project_id from state where not is_quick) p) as others on others.project_id = s.project_id
  where not s.is_quick and (s.under_way > 0 or s.is_open and not s.is_closed and s.tokens >= 1 and exists (
    select from webhook_deliveries d
    where d.webhook_id = s.webhook_id and d.next_attempt_at <= now() and d.job_id is null))`;

/**
 * Webhooks that wait until others of their project that are not quick have no try under way: as many as there is room for,
 * should these lanes have made it.
 */
export const heldBackBeside = async (db: Queryable, webhookIds: readonly string[]): Promise<string[]> => {
  const rows = await db.query<{ webhook_id: string }>(
    `select b.webhook_id
     from (select distinct w.project_id as id from webhooks w where w.id = any ($1::uuid[])
         and exists (select from webhook_lanes h where h.slow_in = w.project_id and h.waits_since is not null)) as those
       join projects p on p.id = those.id
       left join job_limits j on j.project_id = p.id and j.type = '${webhookDeliver.type}'
       cross join lateral (
         select h.webhook_id from webhook_lanes h
         where h.slow_in = p.id and h.waits_since is not null and h.webhook_id <> all ($1::uuid[])
         order by h.waits_since
         limit greatest(0, ${shareSql} - (select count(*) from webhook_lanes o
           where o.slow_in = p.id and o.waits_since is null and o.webhook_id <> all ($1::uuid[])))) as b`,
    [webhookIds],
    'held-back-beside',
  );
  return rows.map((row) => row.webhook_id);
};
