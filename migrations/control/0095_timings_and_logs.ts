import type { Knex } from 'knex';

/**
 * Where the time of a run went, and the logs of a project in order of time. Both are written with the record of the run,
 * by the trigger on its end: they cost no statement.
 */
const figures = `
alter table invocations
  -- Which levels the lines of the log have: 1 debug, 2 info, 4 warn, 8 error. Null: not known.
  add column log_levels smallint,
  -- From when the run was queued until its row said that it runs; from then until a sandbox had it; and while at least
  -- one call of the database, or one request, was under way.
  add column queue_ms real,
  add column start_ms real,
  add column database_ms real,
  add column fetch_ms real;
-- Runs without a log, which are most, are not in it.
create index invocations_logs on invocations (project_id, finished_at, id) where logs is not null;

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
  -- The patterns that these two events fit. Each is kept only for those who subscribe to it (keep_if_subscribed).
  if exists (select from webhook_patterns p where p.project_id = new.project_id
      and p.pattern in ('functions.invoked', 'functions.error', 'functions.*', '*')) then
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
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(figures);
};

export const down = (): Promise<void> => Promise.reject(new Error('The figures of runs are not given up.'));
