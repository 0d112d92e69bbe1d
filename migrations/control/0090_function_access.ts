import type { Knex } from 'knex';

/** Which callers a function takes at its public address; no part of a version: a rollback opens nothing. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table functions add column access text not null default 'key'
      check (access in ('key', 'user', 'secret', 'public'));
  `);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('alter table functions drop column access');
};
