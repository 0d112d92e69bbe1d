import type { Knex } from 'knex';

/** Events are kept for runs that wait for them, too (0100). */
const kept = `
create or replace function keep_if_subscribed() returns trigger language plpgsql
  set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  patterns constant text[] := event_patterns(new.event);
begin
  -- Asked for by hand, for one webhook, whatever it subscribes to.
  if new.event like 'test.%' then return new; end if;
  if exists (select from webhook_patterns p where p.project_id = new.project_id and p.pattern = any (patterns)) then
    return new;
  end if;
  if exists (select from job_steps s where s.project_id = new.project_id and s.status = 'waiting'
      and s.event is not null and s.event = any (patterns)) then
    return new;
  end if;
  return null;
end $$;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(kept);
};

export const down = (): Promise<void> => Promise.reject(new Error('Runs that wait for events are not given up.'));
