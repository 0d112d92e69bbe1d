import type { Knex } from 'knex';

/** Flags that are kept but not evaluated (domain/flags). */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw('alter table flags add column is_archived boolean not null default false');
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('alter table flags drop column is_archived');
};
