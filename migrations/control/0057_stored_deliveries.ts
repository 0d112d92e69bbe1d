import type { Knex } from 'knex';

/**
 * Answers of webhooks' receivers (64 KB each) and the data of events count in what a project stores. Row triggers with
 * a condition, as on jobs: for values below 2,000 bytes the condition is all that they cost, where a statement trigger
 * would copy each row, its 64 KB included, into a transition table. Deliveries are inserted without an answer. The
 * length of an answer is read without the value; that of an event from the value, which an insert has at hand.
 */
const storedDeliveries = `
create function answer_bytes(response_body text) returns integer language sql immutable parallel safe as $$
  select case when octet_length(response_body) >= 2000 then octet_length(response_body) else 0 end
$$;
create function event_bytes(data json) returns integer language sql immutable parallel safe as $$
  select case when octet_length(data::text) >= 2000 then octet_length(data::text) else 0 end
$$;

create function count_stored_answer() returns trigger language plpgsql as $$
begin
  insert into stored_changes (project_id, bytes) values (old.project_id,
    case when tg_op = 'UPDATE' then answer_bytes(new.response_body) else 0 end - answer_bytes(old.response_body));
  return null;
end $$;
create trigger count_stored_update after update of response_body on webhook_deliveries for each row
  when (answer_bytes(old.response_body) <> answer_bytes(new.response_body))
  execute function count_stored_answer();
create trigger count_stored_delete after delete on webhook_deliveries for each row
  when (answer_bytes(old.response_body) > 0)
  execute function count_stored_answer();

create function count_stored_event() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into stored_changes (project_id, bytes) values (new.project_id, event_bytes(new.data));
  else
    insert into stored_changes (project_id, bytes) values (old.project_id, -event_bytes(old.data));
  end if;
  return null;
end $$;
create trigger count_stored_insert after insert on outbox_events for each row
  when (event_bytes(new.data) > 0) execute function count_stored_event();
create trigger count_stored_delete after delete on outbox_events for each row
  when (event_bytes(old.data) > 0) execute function count_stored_event();

-- The oldest of a project that count. An answer is as old as its event.
create index webhook_deliveries_stored on webhook_deliveries (project_id, event_id) where answer_bytes(response_body) > 0;
create index outbox_events_stored on outbox_events (project_id, id)
  where fanned_at is not null and event_bytes(data) > 0;

insert into stored_changes (project_id, bytes)
select project_id, sum(bytes) from (
  select project_id, answer_bytes(response_body) as bytes from webhook_deliveries where answer_bytes(response_body) > 0
  union all
  select project_id, event_bytes(data) from outbox_events where event_bytes(data) > 0
) present group by project_id;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(storedDeliveries);
};

export const down = (): Promise<void> => Promise.reject(new Error('What projects store goes on being counted.'));
