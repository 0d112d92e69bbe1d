import type { Knex } from 'knex';

/**
 * Durable steps of runs. A run whose code asks for steps has a row for each step that has a result or waits; a run that
 * waits for a time or an event has the status `waiting`, holds no place and is queued again when `next_run_at` has come.
 */
const steps = `
alter table jobs drop constraint jobs_status_check;
alter table jobs
  add constraint jobs_status_check check (status in ('queued', 'running', 'waiting', 'succeeded', 'failed', 'cancelled',
    'expired', 'dead')) not valid,
  -- Its code has asked for a step: a run that breaks off is continued.
  add column has_steps boolean not null default false,
  -- Why the present run broke off without an end; its next start is no attempt of its own. Null while it runs.
  add column step_wait text check (step_wait in ('sleep', 'event', 'retry', 'crash')),
  -- The bytes of its steps' results. They change with each step, so no index contains this column.
  add column step_bytes integer not null default 0,
  -- The same once the job has ended: what its project stores. Null before.
  add column kept_step_bytes integer,
  -- How many events have come for it: a run that goes to sleep compares this with what it knew when it began.
  add column step_wakes integer not null default 0;

create table job_steps (
  job_id uuid not null references jobs on delete cascade,
  -- Names that a run uses more than once are numbered.
  name text not null,
  kind text not null check (kind in ('run', 'sleep', 'event')),
  status text not null check (status in ('succeeded', 'failed', 'waiting', 'retrying', 'cancelled')),
  attempt smallint not null default 1,
  started_at timestamptz not null,
  finished_at timestamptz,
  -- When what waits is over, or is tried again.
  due_at timestamptz,
  -- JSON text, as error: jsonb refuses some characters.
  result text,
  error text,
  -- The project, the event and the filter of a step that waits for an event; of other steps only the project is set.
  project_id uuid not null,
  event text,
  filter_table jsonpath,
  filter_other jsonpath,
  primary key (job_id, name)
);
-- Functions of which a run has asked for a step: another run whose worker dies before its first step is continued, too.
create table stepped_functions (
  function_id uuid primary key references functions on delete cascade
);

create index job_steps_awaited on job_steps (project_id, event, job_id) where status = 'waiting' and event is not null;

create index jobs_asleep on jobs (type, next_run_at) where status = 'waiting';
create index jobs_asleep_of_project on jobs (project_id, id) where status = 'waiting';
create index jobs_stored_steps on jobs (project_id, id) where kept_step_bytes >= 2000;
`;

/**
 * The end of a job is the end of what its steps wait for. From then on their results count in what the project stores,
 * as payloads and results do (0036), from 2,000 bytes on.
 */
const ends = `
create function end_steps() returns trigger language plpgsql as $$
begin
  if new.finished_at is not null then
    update job_steps set status = 'cancelled', finished_at = now()
    where job_id = new.id and status in ('waiting', 'retrying');
    new.kept_step_bytes := new.step_bytes;
    new.step_wait := null;
  else
    new.kept_step_bytes := null;
  end if;
  if coalesce(new.kept_step_bytes, 0) >= 2000 or coalesce(old.kept_step_bytes, 0) >= 2000 then
    insert into stored_changes (project_id, bytes) values (new.project_id,
      case when new.kept_step_bytes >= 2000 then new.kept_step_bytes else 0 end
        - case when old.kept_step_bytes >= 2000 then old.kept_step_bytes else 0 end);
  end if;
  return new;
end $$;
create trigger end_steps before update of finished_at on jobs for each row
  when (new.has_steps and old.finished_at is distinct from new.finished_at) execute function end_steps();

create function count_stored_steps() returns trigger language plpgsql as $$
begin
  insert into stored_changes (project_id, bytes) values (old.project_id, - old.kept_step_bytes);
  return null;
end $$;
create trigger count_stored_steps after delete on jobs for each row
  when (old.kept_step_bytes >= 2000) execute function count_stored_steps();

-- A run that goes to sleep leaves a record with its log and its times, under its own id, as an attempt does that is
-- followed by another (0096).
create function record_stretch() returns trigger language plpgsql as $$
declare
  given text[] := string_to_array(left(new.data, 200), '"');
  figures text[] := string_to_array(split_part(new.report, E'\\n', 1), ' ');
begin
  insert into invocations (id, job_id, attempt, project_id, function_id, version, trigger, status, data, duration_ms,
    cpu_ms, memory_peak_mb, logs, log_tail, logs_truncated, started_at, finished_at, log_levels, queue_ms, start_ms,
    database_ms, fetch_ms)
  values (old.run_id, new.id, old.attempt, new.project_id, given[4]::uuid, trim(both ':,' from given[7])::int, given[10],
    'success', new.data, figures[1]::double precision, figures[2]::double precision, figures[3]::double precision,
    nullif(split_part(new.report, E'\\n', 4), ''), nullif(split_part(new.report, E'\\n', 3), ''),
    figures[4] is not distinct from '1', old.started_at, clock_timestamp(), figures[5]::smallint, figures[6]::real,
    figures[7]::real, figures[8]::real, figures[9]::real)
  on conflict (id) do nothing;
  delete from job_log_parts where job_id = new.id;
  new.report := null;
  return new;
end $$;
create trigger record_stretch before update of status on jobs for each row
  when (new.type = 'function.invoke' and old.status = 'running' and new.status = 'waiting' and new.report is not null)
  execute function record_stretch();

-- The record of a run that its steps ended says \`error\`: record_invocation, which comes before by its name, knows no
-- such codes.
create function record_step_failure() returns trigger language plpgsql as $$
begin
  update invocations set status = 'error' where id = new.id;
  return new;
end $$;
create trigger record_step_failure before update of status on jobs for each row
  when (new.has_steps and old.finished_at is null and new.finished_at is not null
    and new.error_code in ('steps_changed', 'too_many_steps', 'step_results_too_large'))
  execute function record_step_failure();
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(steps);
  await knex.raw(ends);
};

export const down = (): Promise<void> => Promise.reject(new Error('Runs that sleep are not given up.'));
