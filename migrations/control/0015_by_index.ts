import type { Knex } from 'knex';

const byIndex = `set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
  set enable_mergejoin = off set plan_cache_mode = force_generic_plan`;

/**
 * Statements that name their rows by id. Each keeps its plan until its table is analyzed: made while the table was
 * small, or while few jobs ran, it walked through all of the table (12 ms a call at 40,000 jobs), or through all jobs
 * that run. The settings, and the states as a case, leave the primary key as the only way; so it is planned once, where
 * one for two or three jobs was planned anew each time.
 */
const jobs = `
create function begin_jobs(ids uuid[], runs uuid[], workers uuid[], lanes text[], epochs bigint[])
  returns setof jobs language plpgsql
  ${byIndex} as $$
begin
  return query
    update jobs j set status = 'running', run_id = started.run, worker_id = started.worker, next_run_at = null,
      started_at = case when j.run_id is not distinct from started.run then j.started_at else clock_timestamp() end,
      attempt = j.attempt + (j.run_id is distinct from started.run)::int
    from unnest(ids, runs, workers, lanes, epochs) as started (id, run, worker, lane, epoch)
      join job_lanes l on l.name = started.lane and l.epoch = started.epoch
    where j.id = started.id and case j.status
      when 'queued' then j.next_run_at is null or j.next_run_at <= now()
      when 'running' then j.run_id = started.run
      else false end
    returning j.*;
end $$;

create function end_jobs(ids uuid[], runs uuid[], statuses text[], results text[], codes text[], messages text[],
    times timestamptz[], reports text[], percents int[])
  returns setof uuid language plpgsql
  ${byIndex} as $$
begin
  return query
    update jobs j set status = ended.status, result = ended.result, error_code = ended.code,
      error_message = ended.message, report = ended.report, progress = coalesce(ended.percent, j.progress),
      finished_at = greatest(j.started_at, ended.at)
    from unnest(ids, runs, statuses, results, codes, messages, times, reports, percents)
      as ended (id, run, status, result, code, message, at, report, percent)
    where j.id = ended.id and case j.status when 'running' then j.run_id = ended.run else false end
    returning j.id;
end $$;

create function set_progress(ids uuid[], percents int[]) returns void language plpgsql
  ${byIndex} as $$
begin
  with free as materialized (
    select j.id from jobs j where j.id = any (ids) and case j.status when 'running' then true else false end
    for no key update skip locked)
  update jobs j set progress = said.percent
  from unnest(ids, percents) as said (id, percent) join free on free.id = said.id
  where j.id = said.id;
end $$;
`;

const webhooks = `
-- As before. It was planned each time it was called, which took 60 µs of the 80.
create or replace function event_patterns(event text) returns text[] language plpgsql immutable strict parallel safe as $$
declare
  parts constant text[] := string_to_array(left(event, 199), '.');
  patterns text[] := array[event, '*', case when event like 'user.%' then 'users.*' else '*' end];
begin
  if event like 'table.%' then
    return array[event, 'table.*', '*', 'db.*', 'database.*',
      regexp_replace(event, '\\.[A-Z]+$', '.*'), 'db.' || lower(substring(event from '[A-Z]+$'))];
  end if;
  -- payments.stripe.invoice.paid: payments.*, payments.stripe.* and payments.stripe.invoice.*.
  for level in 1 .. cardinality(parts) - 1 loop
    patterns := patterns || (array_to_string(parts[1:level], '.') || '.*');
  end loop;
  return patterns;
end $$;

-- As before, with the name of a write found once and not for each webhook: in a function of its own (event_name_for, which a
-- later release drops) it was planned each time.
create or replace function subscribers(of_project uuid, happened text)
  returns table (webhook_id uuid, is_active boolean, event text) language plpgsql stable
  ${byIndex} as $$
declare
  patterns constant text[] := event_patterns(happened);
  -- What a write to a table is called for who subscribes to those.
  as_write constant text := case when happened like 'table.%' then 'db.' || lower(substring(happened from '[A-Z]+$')) end;
begin
  return query
    select m.id, w.is_active,
      case when as_write is not null and m.asked && array['*', 'db.*', 'database.*', as_write] then as_write else happened end
    from (select p.webhook_id as id, array_agg(p.pattern) as asked from webhook_patterns p
          where p.project_id = of_project and p.pattern = any (patterns) group by p.webhook_id) as m
      join webhooks w on w.id = m.id
    where w.deleted_at is null;
end $$;

-- Of these webhooks those of which something waits, and those that count as not quick.
create function lanes_with_work(ids uuid[]) returns setof uuid language plpgsql stable
  ${byIndex} as $$
begin
  return query
    select l.webhook_id from webhook_lanes l
    where l.webhook_id = any (ids) and (l.next_at is not null or l.slow_in is not null or (
      -- Not as exists: that may be answered from a list of all that wait.
      select true from webhook_deliveries d
      where d.webhook_id = l.webhook_id and d.next_attempt_at is not null and d.job_id is null limit 1));
end $$;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(jobs);
  await knex.raw(webhooks);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Plans that walk through whole tables do not come back.'));
