import type { Knex } from 'knex';

/** How often, how soon and how many together the jobs of a function run; no part of a version. */
const functions = `
alter table functions
  -- {per_second, burst}; null: no limit.
  add column rate jsonb,
  -- A job waits until so long nothing came with its key; null: it does not wait.
  add column debounce_ms integer check (debounce_ms > 0),
  -- {max_size, max_wait_ms}; null: each job has a run of its own.
  add column batch jsonb;

-- The time up to which the starts of a function use its rate up. No foreign key: its lock on the function's row would be
-- taken by every start. Rows of functions that are gone are deleted by a sweep.
create table function_rates (
  function_id uuid primary key,
  used_until timestamptz not null
);
`;

const jobs = `
alter table jobs
  -- The function that says when this job may start, by its rate or in a batch. It waits for that as a row that is due at
  -- 'infinity' and has no slot.
  add column flow_of uuid,
  -- The time that it got for its start; while it is the time at which it is due, the job waits for nothing else.
  add column slot_at timestamptz,
  -- The key of which it has the last payload, until it is due.
  add column debounce_key text,
  -- The number of jobs whose payloads this job runs; null: it is not a batch.
  add column batch_size smallint,
  -- The batch that runs its payload. It ends as that does, and has its result.
  add column batch_id uuid;

create index jobs_held_by_flow on jobs (type, flow_of, priority desc, id)
  where status = 'queued' and next_run_at = 'infinity' and flow_of is not null and slot_at is null;
create index jobs_with_start on jobs (flow_of, slot_at) where status = 'queued' and next_run_at = slot_at;
create unique index jobs_debounced on jobs (flow_of, debounce_key) where status = 'queued' and debounce_key is not null;
create index jobs_in_batch on jobs (batch_id) where batch_id is not null;

-- Only those with a key wait for a place of a key; a walk over the keys would pass by every job that is held otherwise.
create index jobs_waiting_for_place on jobs (type, project_id, concurrency_key, priority desc, id)
  where status = 'queued' and next_run_at = 'infinity' and concurrency_key is not null;
`;

/** A batch has one record of its run; its jobs end with it. */
const ends = `
drop trigger record_invocation on jobs;
create trigger record_invocation before update of status on jobs for each row
  when (new.type = 'function.invoke' and old.finished_at is null and new.finished_at is not null
    and new.batch_id is null)
  execute function record_invocation();

drop trigger record_invocation_dead on jobs;
create trigger record_invocation_dead before update of status on jobs for each row
  when (new.type = 'function.invoke' and new.retry is not null and new.status = 'dead' and old.finished_at is null
    and new.finished_at is not null and new.batch_id is null)
  execute function end_with_dead_letter();

-- The result stays with the batch: a thousand copies of a megabyte would be a gigabyte.
create function end_jobs_of_batch() returns trigger language plpgsql as $$
begin
  update jobs set status = new.status, error_code = new.error_code, error_message = new.error_message,
    attempt = new.attempt, started_at = new.started_at, finished_at = new.finished_at, next_run_at = null
  where batch_id = new.id and status = 'queued';
  return null;
end $$;
create trigger end_jobs_of_batch after update of status on jobs for each row
  when (new.batch_size is not null and old.finished_at is null and new.finished_at is not null)
  execute function end_jobs_of_batch();
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(functions);
  await knex.raw(jobs);
  await knex.raw(ends);
};

export const down = (): Promise<void> => Promise.reject(new Error('Jobs that wait for their flow keep it.'));
