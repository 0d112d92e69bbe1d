import type { Knex } from 'knex';

/** The creator of a resumable upload, who alone may continue it, and its object, which owners of the project see. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table storage_uploads
      -- Such as user:<id>; empty for those that began before.
      add column creator text not null default '',
      add column bucket_id text not null default '',
      add column name text not null default '',
      add column created_at timestamptz not null default now()`);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table storage_uploads
      drop column creator, drop column bucket_id, drop column name, drop column created_at`);
};
