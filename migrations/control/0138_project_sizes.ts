import type { Knex } from 'knex';

/**
 * The size of a project's database by hour and by day, as it was last measured in it, and with each day its largest
 * tables. A time without a row had the size of the one before.
 */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table project_sizes (
      project_id uuid not null references projects (id) on delete cascade,
      seconds integer not null check (seconds in (3600, 86400)),
      at timestamptz not null,
      bytes bigint not null,
      -- [{schema, name, bytes}], the largest first; null where they were not measured.
      tables jsonb,
      primary key (project_id, seconds, at)
    );
    create index project_sizes_age on project_sizes (seconds, at);
  `);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table project_sizes');
};
