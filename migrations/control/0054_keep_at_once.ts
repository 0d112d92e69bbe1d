import type { Knex } from 'knex';

/**
 * Whether somebody subscribes is asked once for all events of a name that one statement writes for a project: of 1,000
 * events that the relay keeps, the question for each took 11 ms of 21. Remembered is only that somebody does, in a
 * setting that ends with the transaction: an event that is kept for nobody is dropped when it is passed on.
 */
const keepAtOnce = `
-- The settings: where most rows are of one project, a walk through the table looks cheap for all the others, too.
create function is_subscribed_to(of_project uuid, happened text) returns boolean language plpgsql stable
  set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  patterns constant text[] := event_patterns(happened);
begin
  return exists (select from webhook_patterns p where p.project_id = of_project and p.pattern = any (patterns));
end $$;

create or replace function keep_if_subscribed() returns trigger language plpgsql as $$
declare
  asked constant text := concat_ws(' ', statement_timestamp(), new.project_id, new.event);
begin
  -- Asked for by hand, for one webhook, whatever it subscribes to.
  if new.event like 'test.%' or current_setting('plinth.subscribed_to', true) = asked then return new; end if;
  if not is_subscribed_to(new.project_id, new.event) then return null; end if;
  perform set_config('plinth.subscribed_to', asked, true);
  return new;
end $$;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(keepAtOnce);
};

export const down = (): Promise<void> => Promise.reject(new Error('Events are not asked for one by one again.'));
