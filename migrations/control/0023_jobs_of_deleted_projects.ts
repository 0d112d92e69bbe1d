import type { Knex } from 'knex';

const byIndex = `set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off
  set enable_mergejoin = off set plan_cache_mode = force_generic_plan`;

/**
 * A job of a deleted project never begins. The provisioning of its database is the exception: it puts away what it
 * made. The project is looked up by a scalar subquery and not by an anti-join, which may be planned as a scan of all
 * deleted projects for each job.
 */
const refusal = `
create or replace function begin_jobs(ids uuid[], runs uuid[], workers uuid[], lanes text[], epochs bigint[])
  returns setof jobs language plpgsql
  ${byIndex} as $$
begin
  return query
    update jobs j set status = 'running', run_id = started.run, worker_id = started.worker, next_run_at = null,
      started_at = case when j.run_id is not distinct from started.run then j.started_at else clock_timestamp() end,
      attempt = j.attempt + (j.run_id is distinct from started.run)::int
    from unnest(ids, runs, workers, lanes, epochs) as started (id, run, worker, lane, epoch)
      join job_lanes l on l.name = started.lane and l.epoch = started.epoch
    where j.id = started.id and case j.status
      when 'queued' then (j.next_run_at is null or j.next_run_at <= now()) and (j.type = 'project.provision'
        or (select p.deleted_at is null from projects p where p.id = j.project_id) is not false)
      when 'running' then j.run_id = started.run
      else false end
    returning j.*;
end $$;
`;

/** Batches of one project's waiting jobs are found without reading its other jobs, or those of other projects. */
const queuedOfProject = `create index jobs_queued_of_project on jobs (project_id, id) where status = 'queued';`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(refusal);
  await knex.raw(queuedOfProject);
};

export const down = (): Promise<void> => Promise.reject(new Error('Jobs of deleted projects must not begin again.'));
