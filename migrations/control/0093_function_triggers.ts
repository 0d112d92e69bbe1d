import type { Knex } from 'knex';

/**
 * A trigger of a function subscribes to events as a webhook does, and shares its rows, its patterns and its fan-out: a
 * delivery to it is a job of the function.
 */
const triggers = `
alter table webhooks add column function_id uuid references functions, add column retry jsonb,
  alter column secret_sealed drop not null,
  drop constraint webhooks_kind_check, drop constraint webhooks_check,
  add constraint webhooks_kind_check check (kind in ('http', 'slack', 'discord', 'function')),
  add constraint webhooks_target_check check (case when kind = 'function'
    then num_nonnulls(url, url_sealed, secret_sealed) = 0 and (function_id is not null or deleted_at is not null)
    else num_nonnulls(url, url_sealed) = 1 and secret_sealed is not null and function_id is null and retry is null end);
create index webhooks_function on webhooks (function_id);
drop index webhooks_chat;
create unique index webhooks_chat on webhooks (project_id, kind) where kind in ('slack', 'discord') and deleted_at is null;

drop trigger audit on webhooks;
create trigger audit after insert or update on webhooks for each row when (new.kind <> 'function')
  execute function audit_change('webhook', 'url_sealed', 'secret_sealed', 'previous_secret_sealed', 'version',
    'updated_at', 'filter_table', 'filter_other');
create trigger audit_removed after delete on webhooks for each row when (old.kind <> 'function')
  execute function audit_change('webhook', 'url_sealed', 'secret_sealed', 'previous_secret_sealed', 'version',
    'updated_at', 'filter_table', 'filter_other');
create trigger audit_function_trigger after insert or update on webhooks for each row when (new.kind = 'function')
  execute function audit_change('function_trigger', 'url_sealed', 'secret_sealed', 'previous_secret_sealed', 'version',
    'updated_at', 'filter_table', 'filter_other');

create function end_function_triggers() returns trigger language plpgsql as $$
begin
  update webhooks set function_id = null, deleted_at = coalesce(deleted_at, now()) where function_id = old.id;
  return old;
end $$;
create trigger end_triggers before delete on functions for each row execute function end_function_triggers();
`;

/**
 * How many jobs stand behind an event that each led to the next: a function whose trigger answers to its own writes is
 * stopped after 100. Ends of runs are counted here, where few events come by, and not at the end of every run.
 */
const depth = `
alter table outbox_events add column depth smallint not null default 0;

create or replace function keep_if_subscribed() returns trigger language plpgsql as $$
declare
  asked constant text := concat_ws(' ', statement_timestamp(), new.project_id, new.event);
begin
  -- Asked for by hand, for one webhook, whatever it subscribes to.
  if new.event like 'test.%' then return new; end if;
  if current_setting('plinth.subscribed_to', true) is distinct from asked then
    if not is_subscribed_to(new.project_id, new.event) then return null; end if;
    perform set_config('plinth.subscribed_to', asked, true);
  end if;
  if new.event like 'functions.%' then
    -- Found in the text: operators on json refuse the whole of it where an error message has an escaped NUL. Quotes
    -- within texts are escaped, so that no message can pretend to be the id.
    new.depth := coalesce((select j.depth from jobs j
      where j.id = coalesce(substring(new.data::text from '"job_id" *: *"([0-9a-f-]{36})"'),
        substring(new.data::text from '"id" *: *"([0-9a-f-]{36})"'))::uuid), 0);
  end if;
  return new;
end $$;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(triggers);
  await knex.raw(depth);
};

export const down = (): Promise<void> => Promise.reject(new Error('Triggers of functions are not given up.'));
