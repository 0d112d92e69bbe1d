import type { Knex } from 'knex';

/** As in 0015, but TRUNCATE has one name, whatever a webhook asked for: `db.truncate` is none. */
const eventNames = `
create or replace function subscribers(of_project uuid, happened text)
  returns table (webhook_id uuid, is_active boolean, event text) language plpgsql stable
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan as $$
declare
  patterns constant text[] := event_patterns(happened);
  -- What a write to a table is called for who subscribes to those.
  as_write constant text := case when happened like 'table.%' and happened not like '%.TRUNCATE'
    then 'db.' || lower(substring(happened from '[A-Z]+$')) end;
begin
  return query
    select m.id, w.is_active,
      case when as_write is not null and m.asked && array['*', 'db.*', 'database.*', as_write] then as_write else happened end
    from (select p.webhook_id as id, array_agg(p.pattern) as asked from webhook_patterns p
          where p.project_id = of_project and p.pattern = any (patterns) group by p.webhook_id) as m
      join webhooks w on w.id = m.id
    where w.deleted_at is null;
end $$;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(eventNames);
};

export const down = (): Promise<void> => Promise.reject(new Error('Names of events are not given up.'));
