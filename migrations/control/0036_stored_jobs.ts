import type { Knex } from 'knex';

/**
 * Ended jobs keep their payload and result, up to megabytes each, for hours or days: they count in what a project
 * stores. Both lengths are read from the row, without the values. Triggers that change with the row make every path
 * exact: an end, a retry by hand, retention, the deletion of a project. Small jobs pay only for the comparison:
 * Postgres keeps values below 2 KB in the row, and as many of them as a project may run are bounded by its limits.
 */
const endedJobs = `
create function ended_job_bytes(finished_at timestamptz, data text, result text) returns integer
  language sql immutable parallel safe as $$
  select case
    when finished_at is null then 0
    when octet_length(data) + coalesce(octet_length(result), 0) < 2000 then 0
    else octet_length(data) + coalesce(octet_length(result), 0) end
$$;

create function count_stored_job() returns trigger language plpgsql as $$
begin
  insert into stored_changes (project_id, bytes) values (old.project_id,
    case when tg_op = 'UPDATE' then ended_job_bytes(new.finished_at, new.data, new.result) else 0 end
      - ended_job_bytes(old.finished_at, old.data, old.result));
  return null;
end $$;
create trigger count_stored_update after update of finished_at, data, result on jobs for each row
  when (ended_job_bytes(old.finished_at, old.data, old.result) <> ended_job_bytes(new.finished_at, new.data, new.result))
  execute function count_stored_job();
create trigger count_stored_delete after delete on jobs for each row
  when (ended_job_bytes(old.finished_at, old.data, old.result) > 0)
  execute function count_stored_job();

-- The oldest of a project that count.
create index jobs_stored on jobs (project_id, id) where ended_job_bytes(finished_at, data, result) > 0;

insert into stored_changes (project_id, bytes)
select project_id, sum(ended_job_bytes(finished_at, data, result)) from jobs
where ended_job_bytes(finished_at, data, result) > 0 group by project_id;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(endedJobs);
};

export const down = (): Promise<void> => Promise.reject(new Error('What projects store goes on being counted.'));
