import type { Knex } from 'knex';

/** What the job engine keeps beside a job: where it is, its failed attempts, its log; limits, pauses and lanes. */
const engine = `
alter table jobs
  -- The reply stream of the API process whose caller waits.
  add column reply_to text,
  -- Since when it waits: its acceptance, or when somebody had it run again.
  add column queued_at timestamptz not null default now(),
  -- A retry that waits for its time. Null: it may run at once.
  add column next_run_at timestamptz,
  -- The worker that runs it, or ran it last.
  add column worker_id uuid,
  -- How often a worker died under it.
  add column crashes integer not null default 0,
  add column cancel_requested_at timestamptz,
  -- W3C trace context of the request that asked for it.
  add column traceparent text;

create index jobs_queued on jobs (type, id) where status = 'queued';
create index jobs_due on jobs (type, next_run_at) where status = 'queued' and next_run_at is not null;
create index jobs_running on jobs (type) where status = 'running';
create index jobs_finished on jobs (status, finished_at) where finished_at is not null;
drop index jobs_waiting;

-- The present life of each lane of the gate. A message of an earlier life may not begin (see queues/gate).
create table job_lanes (
  name text primary key,
  epoch bigint not null default 0,
  -- The worker that keeps the lane in order, for as long as it says so.
  leader uuid,
  leader_until timestamptz
);

-- When a worker was last seen by Postgres: written only while it cannot say so in Redis.
create table job_workers (
  id uuid primary key,
  seen_at timestamptz not null default now()
);

-- Many rows change often: dead ones are cleared away before they slow down the partial indexes.
alter table jobs set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- Attempts that another one followed. The latest is in the job's own row.
create table job_attempts (
  id bigint generated always as identity primary key,
  job_id uuid not null references jobs on delete cascade,
  attempt integer not null,
  worker_id uuid,
  started_at timestamptz,
  ended_at timestamptz not null default now(),
  error_code text not null,
  error_message text not null
);
create index job_attempts_job on job_attempts (job_id, id);

create table job_logs (
  id bigint generated always as identity primary key,
  job_id uuid not null references jobs on delete cascade,
  at timestamptz not null,
  level text not null check (level in ('debug', 'info', 'warn', 'error')),
  message text not null
);
create index job_logs_job on job_logs (job_id, id);

-- What operators set for one project in place of its plan's limit; null keeps the plan's.
create table job_limits (
  id uuid primary key default uuid_v7(),
  project_id uuid not null references projects on delete cascade,
  type text not null,
  running integer check (running >= 0),
  waiting integer check (waiting >= 0),
  unique (project_id, type)
);

-- What is not run just now. A null project: every project; a null type: every type.
create table job_pauses (
  id uuid primary key default uuid_v7(),
  project_id uuid references projects on delete cascade,
  type text,
  created_at timestamptz not null default now(),
  unique nulls not distinct (project_id, type)
);

create trigger audit after insert or update or delete on job_limits
  for each row execute function audit_change('job_limit');
create trigger audit after insert or update or delete on job_pauses
  for each row execute function audit_change('job_pause');
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(engine);
};

export const down = (): Promise<void> => Promise.reject(new Error('The job engine keeps its tables.'));
