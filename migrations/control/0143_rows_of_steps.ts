import type { Knex } from 'knex';

/**
 * The rows of steps count in what a project stores, and not their results alone (0100): a thousand steps without a
 * result are some 150 KB.
 */
const ends = `
create or replace function end_steps() returns trigger language plpgsql as $$
begin
  if new.finished_at is not null then
    update job_steps set status = 'cancelled', finished_at = now()
    where job_id = new.id and status in ('waiting', 'retrying');
    new.kept_step_bytes := new.step_bytes + 150 * (select count(*) from job_steps where job_id = new.id);
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
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(ends);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('What projects store has been counted with the rows of steps.'));
