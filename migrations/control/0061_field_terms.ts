import type { Knex } from 'knex';

/*
 * Tables and functions take the names that the field uses (docs/glossary.md, docs/decisions/048-names-of-the-field.md).
 * Processes of the release before go on with the old names during a rolling upgrade: each renamed table has a view that
 * Postgres updates by itself under its old name, and each renamed function stays as it was beside the new one. A later
 * release drops both.
 */

const queueShards = `
alter table job_lanes rename to queue_shards;
alter index job_lanes_pkey rename to queue_shards_pkey;
comment on table queue_shards is 'The present epoch of each queue shard, and its leader.';
create view job_lanes as select * from queue_shards;

-- As begin_jobs of 0023. The settings leave the primary key as the only way (see 0015).
create function start_jobs(ids uuid[], runs uuid[], workers uuid[], shards text[], epochs bigint[])
  returns setof jobs language plpgsql
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan as $$
begin
  return query
    update jobs j set status = 'running', run_id = started.run, worker_id = started.worker, next_run_at = null,
      started_at = case when j.run_id is not distinct from started.run then j.started_at else clock_timestamp() end,
      attempt = j.attempt + (j.run_id is distinct from started.run)::int
    from unnest(ids, runs, workers, shards, epochs) as started (id, run, worker, shard, epoch)
      join queue_shards s on s.name = started.shard and s.epoch = started.epoch
    where j.id = started.id and case j.status
      when 'queued' then (j.next_run_at is null or j.next_run_at <= now()) and (j.type = 'project.provision'
        or (select p.deleted_at is null from projects p where p.id = j.project_id) is not false)
      when 'running' then j.run_id = started.run
      else false end
    returning j.*;
end $$;
`;

const throttles = `
alter table webhook_lanes rename to webhook_throttles;
alter index webhook_lanes_pkey rename to webhook_throttles_pkey;
alter index webhook_lanes_next rename to webhook_throttles_next;
alter index webhook_lanes_slow rename to webhook_throttles_slow;
alter index webhook_lanes_slow_busy rename to webhook_throttles_slow_busy;
alter table webhook_throttles rename column slow_in to slow_scope;
alter table webhook_throttles rename column asked_until to retry_after;
comment on column webhook_throttles.slow_scope is
  'Of a webhook that is not quick and has a try under way or waits for one: the project among whose slow webhooks it '
  'counts, or the nil UUID when it waits because too many of all projects are slow.';
create view webhook_lanes as
  select webhook_id, failures, failing_since, failed_tries, failed_at, closed_until, retry_after as asked_until, tokens, tokens_at,
    next_at, is_quick, slow_scope as slow_in, waits_since
  from webhook_throttles;

alter function open_webhook_lane() rename to create_webhook_throttle;
alter trigger open_lane on webhooks rename to create_throttle;
create or replace function create_webhook_throttle() returns trigger language plpgsql as $$
begin
  insert into webhook_throttles (webhook_id, tokens) values (new.id, new.rate_per_second);
  return null;
end $$;

-- Of these webhooks those with waiting deliveries, and those that count as slow.
create function webhooks_with_work(ids uuid[]) returns setof uuid language plpgsql stable
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan as $$
begin
  return query
    select t.webhook_id from webhook_throttles t
    where t.webhook_id = any (ids) and (t.next_at is not null or t.slow_scope is not null or (
      -- A scalar subquery, since EXISTS may be answered from a list of everything that waits.
      select true from webhook_deliveries d
      where d.webhook_id = t.webhook_id and d.next_attempt_at is not null and d.job_id is null limit 1));
end $$;
`;

const callHeartbeats = `
alter table ai_call_keepers rename to ai_call_heartbeats;
alter index ai_call_keepers_pkey rename to ai_call_heartbeats_pkey;
create view ai_call_keepers as select * from ai_call_heartbeats;
comment on column ai_calls.keeper is 'The heartbeat (ai_call_heartbeats.id) of the process that makes the call.';
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(queueShards);
  await knex.raw(throttles);
  await knex.raw(callHeartbeats);
};

export const down = (): Promise<void> => Promise.reject(new Error('The tables keep their new names.'));
