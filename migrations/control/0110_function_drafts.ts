import type { Knex } from 'knex';

/**
 * Code that somebody tries before it is deployed. A draft has a number below zero where a version has its own, so that
 * its run, log and record are those of any other run. Numbers are never used again: workers remember code by them.
 */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create sequence function_draft_numbers as integer cycle;
    create table function_drafts (
      function_id uuid not null references functions (id) on delete cascade,
      version integer not null check (version < 0),
      project_id uuid not null references projects (id) on delete cascade,
      entry_point text not null,
      entrypoint text,
      files text,
      compiled text not null,
      created_at timestamptz not null default now(),
      primary key (function_id, version)
    );
    create index function_drafts_project on function_drafts (project_id, created_at);
  `);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table function_drafts; drop sequence function_draft_numbers');
};
