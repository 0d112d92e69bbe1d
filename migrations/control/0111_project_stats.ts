import type { Knex } from 'knex';

/**
 * Requests to a project by surface, minute and hour. Each process has rows of its own and writes how many there were in
 * all, never how many more: a write that is repeated counts nothing twice.
 */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table project_stats (
      project_id uuid not null references projects (id) on delete cascade,
      seconds integer not null check (seconds in (60, 3600)),
      at timestamptz not null,
      surface text not null,
      process_id uuid not null,
      counts integer[] not null,
      primary key (project_id, seconds, at, surface, process_id)
    );
    create index project_stats_age on project_stats (seconds, at);
  `);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table project_stats');
};
