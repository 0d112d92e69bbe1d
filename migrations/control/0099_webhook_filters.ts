import type { Knex } from 'knex';

/** Which events of its subscriptions a webhook gets: as its owner wrote it, and compiled by domain/events/filter.ts. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table webhooks add column filter text, add column filter_table jsonpath, add column filter_other jsonpath,
      add constraint webhooks_filter_check check (num_nulls(filter, filter_table, filter_other) in (0, 3));

    -- The data of an event for a filter. Null: they are larger than a delivery may be, or have an escaped NUL, which
    -- jsonb does not take; one such event must not end the statement that passes on the events of all projects.
    create function event_json(data text) returns jsonb language plpgsql immutable as $$
    begin
      return case when octet_length(data) <= 262144 then data::jsonb end;
    exception when others then
      return null;
    end $$;
  `);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Filters are not given up: their webhooks would get events that nobody asked for.'));
