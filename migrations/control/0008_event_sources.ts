import type { Knex } from 'knex';

const eventSources = `
-- Projects in whose database somebody subscribes to writes to tables, or did so until lately: what they have not been taken
-- yet is looked for now and then, whether or not anybody said that there is something.
create table event_sources (
  project_id uuid primary key references projects on delete cascade,
  looked_at timestamptz not null default now(),
  -- When the subscriptions were set.
  changed_at timestamptz not null default clock_timestamp()
);
create index event_sources_looked_at on event_sources (looked_at);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(eventSources);
};

export const down = (): Promise<void> => Promise.reject(new Error('Event sources are not given up.'));
