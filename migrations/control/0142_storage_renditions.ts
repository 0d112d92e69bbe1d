import type { Knex } from 'knex';

/**
 * The bytes of the pictures that were made of a project's objects since they were last emptied. They count for no limit
 * of its files, and everybody who may read an object can have any number of them made.
 */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table storage_renditions (
      project_id uuid primary key references projects on delete cascade,
      bytes bigint not null
    )`);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table storage_renditions');
};
