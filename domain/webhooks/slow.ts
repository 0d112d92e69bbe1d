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
 * How many webhooks that are not quick may have a try under way, of all projects together, where nothing else is said: half
 * of the slots that a worker has unless set. Whichever worker they come to, others find room there.
 */
export const usualSlowAtOnce = 256;

/** In place of the project: those that wait since there are too many of all projects. */
export const allProjects = '00000000-0000-0000-0000-000000000000';

const busySql = (which: string): string => `(select count(*) from webhook_throttles o
  where ${which} and o.waits_since is null and o.webhook_id <> all ($1::uuid[]))`;

/**
 * Webhooks of `state`, the throttles `$1`, that are not quick and have something to do, each with its place among those of its
 * project, and whether it may have a try, so that there are at most `$2` of all projects. Those with a try under way are
 * first, then who has waited longest. Two processes at a time may give one place twice.
 */
export const slowSql = `
  select placed.*, under_way > 0 or place <= share and everybody.busy + count(*) filter (where place <= share) over (
      order by under_way > 0 desc, waits_since nulls last, webhook_id) <= $2::int as is_let
  from (
    select s.webhook_id, s.project_id, s.share, s.under_way, s.waits_since, others.busy + row_number() over (
        partition by s.project_id order by s.under_way > 0 desc, s.waits_since nulls last, s.webhook_id) as place
    from state s join (
        select project_id, ${busySql('o.slow_scope = p.project_id')} as busy
        from (select distinct project_id from state where not is_quick) p) as others on others.project_id = s.project_id
    where not s.is_quick and (s.under_way > 0 or s.is_open and not s.is_closed and s.tokens >= 1 and exists (
      select from webhook_deliveries d
      where d.webhook_id = s.webhook_id and d.next_attempt_at <= now() and d.job_id is null))) as placed
    cross join lateral (select ${busySql('o.slow_scope is not null')} as busy) as everybody`;

/**
 * Webhooks that wait until others that are not quick, of their project or of all, have no try under way: as many as there is
 * room for, should these throttles have made it.
 */
export const heldBackBeside = async (
  db: Queryable,
  webhookIds: readonly string[],
  max = usualSlowAtOnce,
): Promise<string[]> => {
  const rows = await db.query<{ webhook_id: string }>(
    `select b.webhook_id
     from (select distinct w.project_id as id from webhooks w where w.id = any ($1::uuid[])
         and exists (select from webhook_throttles h where h.slow_scope = w.project_id and h.waits_since is not null)) as those
       join projects p on p.id = those.id
       left join job_limits j on j.project_id = p.id and j.type = '${webhookDeliver.type}'
       cross join lateral (
         select h.webhook_id from webhook_throttles h
         where h.slow_scope = p.id and h.waits_since is not null and h.webhook_id <> all ($1::uuid[])
         order by h.waits_since limit greatest(0, ${shareSql} - ${busySql('o.slow_scope = p.id')})) as b
     union
     select c.webhook_id from (select where exists (select from webhook_throttles where slow_scope = '${allProjects}')) as any_wait
       cross join lateral (
         select h.webhook_id from webhook_throttles h
         where h.slow_scope = '${allProjects}' and h.waits_since is not null and h.webhook_id <> all ($1::uuid[])
         order by h.waits_since limit greatest(0, $2::int - ${busySql('o.slow_scope is not null')})) as c`,
    [webhookIds, max],
    'held-back-beside',
  );
  return rows.map((row) => row.webhook_id);
};
