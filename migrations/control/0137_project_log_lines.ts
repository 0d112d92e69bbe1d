import type { Knex } from 'knex';

/**
 * Lines of a project's log that are in no other row: requests that failed, and how its users signed in. Ids are UUIDv7,
 * in the order of the requests.
 */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table project_log_lines (
      id uuid primary key,
      project_id uuid not null references projects on delete cascade,
      source text not null,
      level text not null,
      message text not null,
      -- JSON text.
      fields text not null,
      -- Null: the line is about several requests.
      request_id text,
      created_at timestamptz not null
    );
    create index project_log_lines_listed on project_log_lines (project_id, id desc);
    create index project_log_lines_request on project_log_lines (request_id);
  `);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table project_log_lines');
};
