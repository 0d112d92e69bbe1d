import type { Knex } from 'knex';

/** Events are kept for runs that wait for them, too (0100). */
const kept = `
create or replace function is_subscribed_to(of_project uuid, happened text) returns boolean language plpgsql stable
  set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  patterns constant text[] := event_patterns(happened);
begin
  return exists (select from webhook_patterns p where p.project_id = of_project and p.pattern = any (patterns))
    or exists (select from job_steps s where s.project_id = of_project and s.status = 'waiting'
      and s.event is not null and s.event = any (patterns));
end $$;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(kept);
};

export const down = (): Promise<void> => Promise.reject(new Error('Runs that wait for events are not given up.'));
