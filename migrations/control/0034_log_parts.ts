import type { Knex } from 'knex';

/**
 * Lines of a log come in parts, one row for each flush of a run that goes on. A row for each line took 180 times the
 * size of the line: 7,900 lines of one character were 1.4 MB.
 */
const parts = `
create table job_log_parts (
  id bigint generated always as identity primary key,
  job_id uuid not null references jobs on delete cascade,
  -- The place of its first line among the lines of its run, from 1 on.
  first_line integer not null,
  lines integer not null,
  -- JSON objects {ts, level, message} with commas between them: text, because jsonb refuses some characters, and never
  -- parsed here. Postgres compresses what is longer than 2 KB.
  body text not null
);
create index job_log_parts_job on job_log_parts (job_id, id);

-- Workers of the version before write to the old table until they are replaced: those lines are lost to readers.
insert into job_log_parts (job_id, first_line, lines, body)
select job_id, coalesce(min(line), 1), count(*),
  string_agg(json_build_object('ts', to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'level', level,
    'message', message)::text, ',' order by id)
from job_logs group by job_id;
truncate job_logs;

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
    select '[' || string_agg(p.body, ',' order by p.id) || ']' into lines from job_log_parts p where p.job_id = new.id;
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
  -- From now on the lines are in the record, in one value that Postgres compresses.
  delete from job_log_parts where job_id = new.id;
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

`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(parts);
};

export const down = (): Promise<void> => Promise.reject(new Error('The lines of logs stay in parts.'));
