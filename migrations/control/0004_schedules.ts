import type { Knex } from 'knex';

/** Cron: what fires when, and what became of each fire. */
const schedules = `
create table schedules (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  name text not null,
  schedule text not null,
  timezone text not null,
  target jsonb not null,
  -- Exact JSON text.
  payload text not null,
  enabled boolean not null,
  overlap text not null check (overlap in ('skip', 'queue', 'allow')),
  misfire text not null check (misfire in ('once', 'skip', 'all')),
  -- The next instant at which it fires; null while it is disabled.
  next_run_at timestamptz,
  -- When the tick looks at it: next_run_at, or null while its project is not active, so that paused projects cost nothing.
  due_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index schedules_project on schedules (project_id, created_at);
create index schedules_due on schedules (due_at) where due_at is not null;

create table schedule_runs (
  id uuid primary key,
  schedule_id uuid not null references schedules on delete cascade,
  fire_at timestamptz not null,
  trigger text not null check (trigger in ('schedule', 'manual')),
  -- No foreign key: the run is kept longer than its job.
  job_id uuid,
  -- started: its job knows more. The end of the job is copied here before the job is put away.
  status text not null check (status in
    ('waiting', 'started', 'skipped', 'succeeded', 'failed', 'cancelled', 'expired', 'dead')),
  -- Why it was skipped, or failed without a job.
  reason text,
  started_at timestamptz,
  finished_at timestamptz,
  error_code text,
  error_message text,
  created_at timestamptz not null default now()
);
-- A fire is there once, whoever ticks and however often.
create unique index schedule_runs_fire on schedule_runs (schedule_id, fire_at) where trigger = 'schedule';
create index schedule_runs_schedule on schedule_runs (schedule_id, fire_at desc, id desc);
create index schedule_runs_open on schedule_runs (schedule_id, fire_at) where status in ('waiting', 'started');
create index schedule_runs_waiting on schedule_runs (schedule_id) where status = 'waiting';
create index schedule_runs_created on schedule_runs (created_at);

create function schedules_resume() returns trigger language plpgsql as $$
begin
  update schedules set due_at = next_run_at where project_id = new.id and enabled and due_at is null;
  return null;
end $$;

-- The tick takes the schedules of inactive projects out of its sight; this puts them back.
create trigger schedules_resume after update of status on projects
  for each row when (new.status = 'active' and old.status <> 'active') execute function schedules_resume();

-- Not on the columns that each fire moves.
create trigger audit
  after insert or delete or update of name, schedule, timezone, target, payload, enabled, overlap, misfire on schedules
  for each row execute function audit_change('schedule', 'payload', 'next_run_at', 'due_at', 'updated_at');
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(schedules);
};

export const down = (): Promise<void> => Promise.reject(new Error('Schedules are not given up.'));
