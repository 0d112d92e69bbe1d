import type { Knex } from 'knex';

/**
 * The end of a run is an event for steps that wait for it, too, and not for webhooks alone (0095). A run that its steps
 * ended is an `error` in its event as it is in its record, which a second trigger changed until now (0100).
 */
const ends = `
create or replace function record_invocation() returns trigger language plpgsql as $$
declare
  -- By its beginning, {"function_id":"…","version":1,"trigger":"…", cut at the quotes: a payload can have megabytes. A
  -- regular expression took 330 µs.
  given text[] := string_to_array(left(new.data, 200), '"');
  run_version integer;
  ended text := case
    when new.status = 'succeeded' then 'success'
    when new.status in ('cancelled', 'expired') then 'cancelled'
    when new.error_code in ('error', 'timeout', 'memory_limit', 'cpu_limit', 'result_too_large', 'cancelled')
      then new.error_code
    -- Its code is at fault, and no process of ours.
    when new.error_code in ('steps_changed', 'too_many_steps', 'step_results_too_large') then 'error'
    else 'crashed' end;
  figures text[] := string_to_array(split_part(new.report, E'\\n', 1), ' ');
  failure text := nullif(split_part(new.report, E'\\n', 2), '');
  tail text := nullif(split_part(new.report, E'\\n', 3), '');
  lines text := nullif(split_part(new.report, E'\\n', 4), '');
  took double precision := figures[1]::double precision;
  -- A worker of the version before reports four figures; what it does not say stays null.
  levels smallint := figures[5]::smallint;
  event json;
begin
  new.report := null;
  if given[2] is distinct from 'function_id' or given[8] is distinct from 'trigger' then return new; end if;
  run_version := trim(both ':,' from given[7]);
  if failure is null and new.error_code is not null then
    failure := json_build_object('name', new.error_code, 'message', new.error_message, 'stack', '');
  end if;
  if figures is null and new.started_at is not null then
    -- Its worker died: what was logged until then stands with the job.
    took := extract(epoch from new.finished_at - new.started_at) * 1000;
    select '[' || string_agg(p.body, ',' order by p.id) || ']' into lines from job_log_parts p where p.job_id = new.id;
  end if;
  insert into invocations (id, project_id, function_id, version, trigger, status, data, duration_ms, cpu_ms,
    memory_peak_mb, error, logs, log_tail, logs_truncated, started_at, finished_at, log_levels, queue_ms, start_ms,
    database_ms, fetch_ms)
  values (new.id, new.project_id, given[4]::uuid, run_version, given[10], ended, new.data, took,
    figures[2]::double precision, figures[3]::double precision, failure, lines, tail, figures[4] is not distinct from '1',
    new.started_at, new.finished_at, levels, figures[6]::real, figures[7]::real, figures[8]::real, figures[9]::real)
  -- A job that failed and was run again by hand.
  on conflict (id) do update set status = excluded.status, duration_ms = excluded.duration_ms,
    cpu_ms = excluded.cpu_ms, memory_peak_mb = excluded.memory_peak_mb, error = excluded.error, logs = excluded.logs,
    log_tail = excluded.log_tail, logs_truncated = excluded.logs_truncated, started_at = excluded.started_at,
    finished_at = excluded.finished_at, log_levels = excluded.log_levels, queue_ms = excluded.queue_ms,
    start_ms = excluded.start_ms, database_ms = excluded.database_ms, fetch_ms = excluded.fetch_ms;
  -- From now on the lines are in the record, in one value that Postgres compresses.
  delete from job_log_parts where job_id = new.id;
  -- The patterns that these two events fit. Each is kept only for those who subscribe to it or wait (keep_if_subscribed).
  if exists (select from webhook_patterns p where p.project_id = new.project_id
      and p.pattern in ('functions.invoked', 'functions.error', 'functions.*', '*'))
    or exists (select from job_steps s where s.project_id = new.project_id and s.status = 'waiting'
      and s.event in ('functions.invoked', 'functions.error', 'functions.*', '*')) then
    event := json_build_object('id', new.id, 'function_id', given[4], 'version', run_version, 'trigger', given[10],
      'status', ended, 'duration_ms', took, 'cpu_ms', figures[2]::double precision,
      'memory_peak_mb', figures[3]::double precision,
      'started_at', to_char(new.started_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'error', failure::json);
    insert into outbox_events (project_id, event, data) values (new.project_id, 'functions.invoked', event);
    if ended <> 'success' then
      insert into outbox_events (project_id, event, data) values (new.project_id, 'functions.error', event);
    end if;
    -- Read by the statement that recorded the end.
    perform set_config('plinth.has_events', 'on', true);
  end if;
  return new;
end $$;

drop trigger record_step_failure on jobs;
drop function record_step_failure();
`;

const dead = `
create or replace function end_with_dead_letter() returns trigger language plpgsql as $$
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
      and p.pattern in ('functions.dead', 'functions.*', '*'))
    or exists (select from job_steps s where s.project_id = new.project_id and s.status = 'waiting'
      and s.event in ('functions.dead', 'functions.*', '*')) then
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
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(ends);
  await knex.raw(dead);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Steps that wait for the end of a run keep waiting.'));
