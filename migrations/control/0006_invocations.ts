import type { Knex } from 'knex';

/**
 * Runs of functions and what they cost: the record of each, the count of a month, the events that tell of them. The
 * record is written by a trigger on the job's own end, so that it is there exactly once, whoever ends the job: its
 * worker, the reaper, a cancellation, the sweep.
 */
const invocations = `
create table invocations (
  -- The job's.
  id uuid primary key,
  project_id uuid not null,
  function_id uuid not null,
  version integer not null,
  trigger text not null,
  -- How the run ended, in the words of the run and not of the job.
  status text not null,
  -- What the job was given, the payload in it: exact text, for a rerun.
  data text not null,
  duration_ms double precision,
  cpu_ms double precision,
  memory_peak_mb double precision,
  -- JSON text, as are logs; neither is ever read here, so that \\u0000 in them is no matter.
  error text,
  logs text,
  -- The end of logs that are too long for a list.
  log_tail text,
  logs_truncated boolean not null default false,
  started_at timestamptz,
  finished_at timestamptz not null
);
-- No foreign key: its lock on the function's row would be taken by every run. Ids are in order of time.
create index invocations_function on invocations (function_id, id desc);
-- What went wrong, found among what went well.
create index invocations_bad_ends on invocations (function_id, status, id desc) where status <> 'success';
alter table invocations set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

-- Functions that were deleted, until their invocations are.
create table deleted_functions (
  id uuid primary key,
  deleted_at timestamptz not null default now()
);
create function note_deleted_function() returns trigger language plpgsql as $$
begin
  insert into deleted_functions (id) values (old.id) on conflict do nothing;
  return null;
end $$;
create trigger note_deleted after delete on functions for each row execute function note_deleted_function();

-- What waits to be told to subscribers.
create table outbox_events (
  id uuid primary key default uuid_v7(),
  project_id uuid not null,
  event text not null,
  -- Not jsonb: that refuses \\u0000.
  data json not null,
  created_at timestamptz not null default now()
);

-- How many jobs of a type a project has had accepted in a month (UTC).
create table job_usage (
  project_id uuid not null references projects on delete cascade,
  type text not null,
  month date not null,
  used bigint not null,
  -- What the latest statement was given, and the limit that it came with.
  granted bigint not null,
  most bigint not null,
  primary key (project_id, type, month)
) with (fillfactor = 50);

alter table job_logs
  -- Counts the lines of a run from 1 on.
  add column line integer;

alter table jobs
  -- What only the worker of a run knows of it, on its way into the record: domain/functions/run-report.ts. Never kept here.
  add column report text;

create function record_invocation() returns trigger language plpgsql as $$
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
  told json;
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
    select json_agg(json_build_object(
        'ts', to_char(l.at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'level', l.level, 'message', l.message)
      order by l.id) into lines from job_logs l where l.job_id = new.id;
  end if;
  insert into invocations (id, project_id, function_id, version, trigger, status, data, duration_ms, cpu_ms,
    memory_peak_mb, error, logs, log_tail, logs_truncated, started_at, finished_at)
  values (new.id, new.project_id, given[4]::uuid, run_version, given[10], ended, new.data, took,
    figures[2]::double precision, figures[3]::double precision, failure, lines, tail, figures[4] is not distinct from '1',
    new.started_at, new.finished_at)
  -- A job that failed and was run again by hand.
  on conflict (id) do update set status = excluded.status, duration_ms = excluded.duration_ms,
    cpu_ms = excluded.cpu_ms, memory_peak_mb = excluded.memory_peak_mb, error = excluded.error, logs = excluded.logs,
    log_tail = excluded.log_tail, logs_truncated = excluded.logs_truncated, started_at = excluded.started_at,
    finished_at = excluded.finished_at;
  told := json_build_object('id', new.id, 'function_id', given[4], 'version', run_version, 'trigger', given[10],
    'status', ended, 'duration_ms', took, 'cpu_ms', figures[2]::double precision,
    'memory_peak_mb', figures[3]::double precision,
    'started_at', to_char(new.started_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'error', failure::json);
  insert into outbox_events (project_id, event, data) values (new.project_id, 'functions.invoked', told);
  if ended <> 'success' then
    insert into outbox_events (project_id, event, data) values (new.project_id, 'functions.error', told);
  end if;
  return new;
end $$;

-- Before and not after, so that the report goes no further than into the record.
create trigger record_invocation before update of status on jobs for each row
  when (new.type = 'function.invoke' and old.finished_at is null and new.finished_at is not null)
  execute function record_invocation();
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(invocations);
};

export const down = (): Promise<void> => Promise.reject(new Error('Invocations are not given up.'));
