import type { Knex } from 'knex';

/**
 * Options of single jobs: when, in which order, how often and how many at a time they run. A job without options has
 * the defaults, which are not stored in rows that were there before.
 */
const jobOptions = `
alter table jobs
  -- Among the waiting jobs of its project: 9 goes first.
  add column priority smallint not null default 0 check (priority between 0 and 9),
  -- The retry policy; null: it is run once.
  add column retry jsonb,
  -- How many jobs stand behind this one that each enqueued the next.
  add column depth smallint not null default 0,
  -- At most so many jobs of this key of its project run at a time.
  add column concurrency_key text,
  add column concurrency smallint check (concurrency > 0),
  -- From then on its first run does not begin any more.
  add column expires_at timestamptz,
  add constraint jobs_concurrency check ((concurrency_key is null) = (concurrency is null));

-- A job that waits for a place of its key is due at 'infinity'.
create index jobs_waiting_for_key on jobs (type, project_id, concurrency_key, priority desc, id)
  where status = 'queued' and next_run_at = 'infinity';
-- The jobs that hold the places of their keys: they run, or were given to the gate.
create index jobs_holding_key on jobs (project_id, concurrency_key)
  where concurrency_key is not null and (status = 'running' or (status = 'queued' and next_run_at is null));
create index jobs_expiring on jobs (expires_at) where status = 'queued' and expires_at is not null;

alter table functions
  -- For its jobs that bring none of their own; no part of a version.
  add column retry jsonb,
  -- Runs when a job of the function has failed for good; no part of a version either.
  add column on_failure_function_id uuid references functions on delete set null;
create index functions_on_failure on functions (on_failure_function_id);

-- The first job with a key, for as long as that keeps others away. No foreign keys: their locks on the function's row
-- would be taken by every job with a key.
create table job_unique_keys (
  function_id uuid not null,
  key text not null,
  job_id uuid not null,
  expires_at timestamptz not null,
  primary key (function_id, key)
);
create index job_unique_keys_expiry on job_unique_keys (expires_at);
`;

/** Attempts that are followed by another. */
const attempts = `
alter table invocations
  -- Which attempt of its job it was; null: it was recorded before attempts were counted.
  add column attempt smallint,
  -- The job of an attempt that was followed by another; null: the record has the job's own id.
  add column job_id uuid;

-- An attempt that failed and is followed by another has a record of its own, under the id of its run. A job that goes
-- back without a report (its worker stopped, or a fault of ours came before the handler) leaves none.
create function record_attempt() returns trigger language plpgsql as $$
declare
  given text[] := string_to_array(left(new.data, 200), '"');
  figures text[] := string_to_array(split_part(new.report, E'\\n', 1), ' ');
  lines text := nullif(split_part(new.report, E'\\n', 4), '');
begin
  if new.report = 'crashed' then
    figures := array[(extract(epoch from clock_timestamp() - old.started_at) * 1000)::text, null, null, '0'];
    select '[' || string_agg(p.body, ',' order by p.id) || ']' into lines from job_log_parts p where p.job_id = new.id;
  end if;
  insert into invocations (id, job_id, attempt, project_id, function_id, version, trigger, status, data, duration_ms,
    cpu_ms, memory_peak_mb, error, logs, log_tail, logs_truncated, started_at, finished_at)
  values (old.run_id, new.id, old.attempt, new.project_id, given[4]::uuid, trim(both ':,' from given[7])::int, given[10],
    case when new.error_code in ('error', 'timeout') then new.error_code else 'crashed' end, new.data,
    figures[1]::double precision, figures[2]::double precision, figures[3]::double precision,
    coalesce(nullif(split_part(new.report, E'\\n', 2), ''),
      json_build_object('name', new.error_code, 'message', new.error_message, 'stack', '')::text),
    lines, nullif(split_part(new.report, E'\\n', 3), ''), figures[4] is not distinct from '1', old.started_at,
    clock_timestamp())
  on conflict (id) do nothing;
  -- The next attempt numbers its lines from 1 on.
  delete from job_log_parts where job_id = new.id;
  new.report := null;
  return new;
end $$;
create trigger record_attempt before update of status on jobs for each row
  when (new.type = 'function.invoke' and old.status = 'running' and new.status = 'queued' and new.report is not null)
  execute function record_attempt();
`;

/**
 * A job with a retry policy that failed for good is dead: webhooks of its project are told, and the function that it
 * names for failures gets a job, in the transaction of the end. Before the update and not after it, since the statement reads
 * from a setting whether there are events.
 */
const dead = `
create function end_with_dead_letter() returns trigger language plpgsql as $$
declare
  given text[] := string_to_array(left(new.data, 200), '"');
  about text := jsonb_build_object('job_id', new.id, 'function_id', given[4],
    'version', trim(both ':,' from given[7])::int, 'attempts', new.attempt,
    'error', jsonb_build_object('code', new.error_code, 'message', new.error_message))::text;
  payload text;
  slug text;
  handler_id uuid;
  handler_version integer;
begin
  if exists (select from webhook_patterns p where p.project_id = new.project_id
      and p.pattern in ('functions.dead', 'functions.*', '*')) then
    insert into outbox_events (project_id, event, data) values (new.project_id, 'functions.dead', about::json);
    perform set_config('plinth.has_events', 'on', true);
  end if;
  select h.id, h.version, f.slug into handler_id, handler_version, slug
  from functions f join functions h on h.id = f.on_failure_function_id
  where f.id = given[4]::uuid and new.depth < 100;
  if handler_id is null then return new; end if;
  begin
    payload := new.data::json ->> 'payload';
  exception when others then
    -- Text that PostgreSQL cannot hold once it is read, such as a lone surrogate.
    payload := null;
  end;
  -- Counted like every run; one over the cap is not made.
  update job_usage set used = used + 1
  where project_id = new.project_id and type = new.type and month = date_trunc('month', now() at time zone 'utc')::date
    and used < most;
  if not found and exists (select from job_usage where project_id = new.project_id and type = new.type
      and month = date_trunc('month', now() at time zone 'utc')::date) then return new; end if;
  -- The leader of its shard admits it within a second.
  insert into jobs (id, project_id, type, status, data, max_attempts, request_id, depth, next_run_at)
  values (uuid_v7(), new.project_id, new.type, 'queued',
    format('{"function_id":"%s","version":%s,"trigger":"job","payload":%s}', handler_id, handler_version,
      to_json('{"job": ' || left(jsonb_build_object('id', new.id, 'function', slug, 'attempts', new.attempt,
        'error', jsonb_build_object('code', new.error_code, 'message', new.error_message))::text, -1)
        || ', "payload": ' || coalesce(payload, 'null') || '}}')),
    3, new.request_id, new.depth + 1, now());
  return new;
end $$;
create trigger record_invocation_dead before update of status on jobs for each row
  when (new.type = 'function.invoke' and new.retry is not null and new.status = 'dead' and old.finished_at is null
    and new.finished_at is not null)
  execute function end_with_dead_letter();
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(jobOptions);
  await knex.raw(attempts);
  await knex.raw(dead);
};

export const down = (): Promise<void> => Promise.reject(new Error('Jobs keep their options.'));
